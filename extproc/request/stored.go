package request

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// A request may name resources that a provider stores under its key: files, responses and their items, conversations, containers. The key serves all
// callers of the gateway and can access what any of them created, so only the account that created a resource through the gateway may name it.
// Resources created elsewhere under the same key have no owner here. A user's own key belongs to its user; the provider separates users.

// FilterByStored removes the candidates that cannot serve the resources that the request names. owners returns the owner of each known id. The error
// is a fault if a resource belongs to another account, or no candidate can access it.
func (v *View) FilterByStored(ctx context.Context, owners func(context.Context, []string) (map[string]ledger.StoredResource, error)) error {
	if v.OwnKey.IsSet() || !v.namesStored() {
		return nil
	}
	refs, err := passthrough.ReadRefs(&v.Request.Doc)
	if err != nil || len(refs) == 0 {
		return err
	}
	known, err := owners(ctx, stored.Names(refs))
	if err != nil {
		return err
	}
	for i := range refs {
		if err := v.filterByReference(&refs[i], known); err != nil {
			return err
		}
	}
	return nil
}

// MayNameStored reports whether FilterByStored may have to look up an owner. It is used before the candidates are known.
func (v *View) MayNameStored() bool {
	return !v.OwnKey.IsSet() && (stored.Named(&v.Request.Doc, stored.Items) || stored.Named(&v.Request.Doc, stored.URLs))
}

// namesStored reports whether the request may name a resource, by its member names. Few requests do; the others are not walked.
func (v *View) namesStored() bool {
	scope := stored.Scope(0)
	if v.Request.Dialect == chat.Responses {
		scope = stored.Items
	}
	doc := &v.Request.Doc
	return stored.Named(doc, scope) || stored.Named(doc, stored.URLs) && slices.ContainsFunc(v.Found, v.takesAddresses)
}

// takesAddresses reports whether a candidate's format treats an address in the request as one of the provider's own files.
func (v *View) takesAddresses(to policy.Resolution) bool {
	return v.Request.Dialect != chat.Gemini && v.DialectAt(&to) == chat.Gemini
}

// filterByReference removes the candidates that cannot serve one reference. A resource is served by the provider that stores it. An item of a
// response may also be sent in another format, which omits its id.
func (v *View) filterByReference(r *stored.Ref, known map[string]ledger.StoredResource) error {
	k, made := known[r.ID]
	mine := made && k.Account == v.Principal.Account && v.isKnown()
	unavailable := func(to policy.Resolution) bool { return !mine || to.Provider != k.Provider }
	switch r.Kind {
	case stored.Copy:
		if made && !mine {
			return passthrough.NotOwned(r)
		}
		return nil
	case stored.URL:
		v.Found = slices.DeleteFunc(v.Found, v.takesAddresses)
	case stored.Item:
		v.NamesStored = true
		v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
			return unavailable(to) && v.DialectAt(&to) == v.Request.Dialect
		})
	case stored.Resource:
		v.NamesStored = true
		v.Found = slices.DeleteFunc(v.Found, unavailable)
	}
	switch {
	case len(v.Found) > 0:
		return nil
	case mine:
		f := fault.Newf(fault.NotFound, "%s: %q is stored at %s, which cannot serve this request", r.At, fault.Clip(r.ID), k.Provider)
		f.Param = r.At
		return f
	}
	return passthrough.NotOwned(r)
}

// isKnown reports whether the request's owner is known. A payer is known only after it has paid: before that it has the account of anonymous callers,
// but is not one of them.
func (v *View) isKnown() bool { return !v.PaysItself || v.Principal.Account != "" }

// FilterByNeeds removes the candidates that lack a required feature of the request.
func (v *View) FilterByNeeds() error {
	for _, n := range v.Request.Needs {
		v.Found = slices.DeleteFunc(v.Found, func(r policy.Resolution) bool { return !v.meets(&r, n.Feature) })
		if len(v.Found) == 0 {
			return responses.StoredElsewhere(n.Member)
		}
	}
	return nil
}

func (v *View) meets(r *policy.Resolution, f policy.Feature) bool {
	if f == policy.ResponsesAPI && v.Config.Provider(r.Provider).Endpoint.Responses {
		return true
	}
	return slices.Contains(r.Features, f)
}
