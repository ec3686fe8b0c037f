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

// A request may name resources that a provider stores under its key: files, responses and their items, conversations, containers. The key serves
// all callers of the gateway and can access what any of them created, so only the account that created a resource through the gateway may name
// it. A resource that was created elsewhere under the same key belongs to nobody here. A key that the request brings belongs to its user, and the
// provider tells users apart.

// FilterByStored leaves the candidates that may serve what the request names. owners returns the owner of each id that is known. The error is a
// fault where the request names a resource of another account, or one that no candidate can access.
func (v *View) FilterByStored(ctx context.Context, owners func(context.Context, []string) (map[string]ledger.Kept, error)) error {
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

// MayNameStored reports whether FilterByStored may have to look up an owner. It is for before the candidates are known.
func (v *View) MayNameStored() bool {
	return !v.OwnKey.IsSet() && (stored.Named(&v.Request.Doc, stored.Items) || stored.Named(&v.Request.Doc, stored.URLs))
}

// namesStored reports whether the request may name something, by the names of its members. Few do: the others are not walked.
func (v *View) namesStored() bool {
	scope := stored.Scope(0)
	if v.Request.Dialect == chat.Responses {
		scope = stored.Items
	}
	doc := &v.Request.Doc
	return stored.Named(doc, scope) || stored.Named(doc, stored.URLs) && slices.ContainsFunc(v.Found, v.takesAddresses)
}

// takesAddresses reports whether a candidate's format makes an address of the request's one of its own files.
func (v *View) takesAddresses(to policy.Resolution) bool {
	return v.Request.Dialect != chat.Gemini && v.DialectAt(&to) == chat.Gemini
}

// filterByReference leaves the candidates that may serve what one member names. A thing is served where it is stored. An item of a response is, too, or by
// who is asked in another format, which has no word for it.
func (v *View) filterByReference(r *stored.Ref, known map[string]ledger.Kept) error {
	k, made := known[r.ID]
	mine := made && k.Account == v.Principal.Account && v.isKnown()
	elsewhere := func(to policy.Resolution) bool { return !mine || to.Provider != k.Provider }
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
			return elsewhere(to) && v.DialectAt(&to) == v.Request.Dialect
		})
	case stored.Resource:
		v.NamesStored = true
		v.Found = slices.DeleteFunc(v.Found, elsewhere)
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

// isKnown reports whether it is known whose the request is, or that it is nobody's. A payer is known once it has paid: before, it has the account of callers
// without a key, and is none of them.
func (v *View) isKnown() bool { return !v.PaysItself || v.Principal.Account != "" }

// FilterByNeeds leaves out the candidates that lack what the request cannot do without.
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
