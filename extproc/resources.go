package extproc

import (
	"context"
	"errors"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// A request may name what a provider stores under its key: files, responses and their items, conversations, containers. Such a key serves all
// callers of the gateway and reaches what any of them made, so only the account that made a thing through the gateway may name it. What was
// made elsewhere under the same key is nobody's here. A key that the request brings is its user's: its provider tells users apart.

// keepToStored leaves the candidates that may serve what the request names. It refuses one that names what is not its account's.
func (x *exchange) keepToStored(ctx context.Context) error {
	if x.ownKey.IsSet() || !x.namesStored() {
		return nil
	}
	refs, err := readRefs(&x.Request.Doc)
	if err != nil || len(refs) == 0 {
		return err
	}
	known, err := x.gw.Ledger.KeptOf(ctx, idsOf(refs))
	if err != nil {
		return err
	}
	for i := range refs {
		if err := x.keepTo(&refs[i], known); err != nil {
			return err
		}
	}
	return nil
}

// namesStored reports whether the request may name something, by the names of its members. Few do: the others are not walked.
func (x *exchange) namesStored() bool {
	scope := stored.Scope(0)
	if x.Request.Dialect == chat.Responses {
		scope = stored.Items
	}
	doc := &x.Request.Doc
	return stored.Named(doc, scope) || stored.Named(doc, stored.URLs) && slices.ContainsFunc(x.Found, x.takesAddresses)
}

// takesAddresses reports whether a candidate's format makes an address of the request's one of its own files.
func (x *exchange) takesAddresses(to policy.Resolution) bool {
	return x.Request.Dialect != chat.Gemini && x.spokenTo(&to) == chat.Gemini
}

// spokenTo is the format in which a candidate is asked.
func (x *exchange) spokenTo(to *policy.Resolution) chat.Dialect {
	p := x.rt.Providers[to.Provider]
	return p.Adapter.Dialect(*to, p.Endpoint, x.Request.Dialect)
}

// keepTo leaves the candidates that may serve what one member names. A thing is served where it is stored. An item of a response is, too, or by
// who is asked in another format, which has no word for it.
func (x *exchange) keepTo(r *stored.Ref, known map[string]ledger.Kept) error {
	k, made := known[r.ID]
	mine := made && k.Account == x.Principal.Account
	elsewhere := func(to policy.Resolution) bool { return !mine || to.Provider != k.Provider }
	switch r.Kind {
	case stored.Copy:
		if made && !mine {
			return notTheirs(r)
		}
		return nil
	case stored.URL:
		x.Found = slices.DeleteFunc(x.Found, x.takesAddresses)
	case stored.Item:
		x.bound = true
		x.Found = slices.DeleteFunc(x.Found, func(to policy.Resolution) bool {
			return elsewhere(to) && x.spokenTo(&to) == x.Request.Dialect
		})
	case stored.Thing:
		x.bound = true
		x.Found = slices.DeleteFunc(x.Found, elsewhere)
	}
	switch {
	case len(x.Found) > 0:
		return nil
	case mine:
		f := fault.Newf(fault.NotFound, "%s: %q is stored at %s, which cannot serve this request", r.At, fault.Clip(r.ID), k.Provider)
		f.Param = r.At
		return f
	}
	return notTheirs(r)
}

// notTheirs tells a caller that its account made no such thing: whether another did is not said.
func notTheirs(r *stored.Ref) error {
	f := fault.Newf(fault.NotFound, "%s: there is no %q that this key made through the gateway", r.At, fault.Clip(r.ID))
	f.Param = r.At
	return f
}

// readRefs is what a body names. The error is a fault.
func readRefs(doc *jsonx.Doc) ([]stored.Ref, error) {
	refs, err := stored.Refs(doc)
	if invalid, ok := errors.AsType[*stored.InvalidError](err); ok {
		return nil, wire.Invalid(invalid.At, "%s", invalid.Error())
	}
	return refs, err
}

func idsOf(refs []stored.Ref) []string {
	ids := make([]string, len(refs))
	for i := range refs {
		ids[i] = refs[i].ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// anywhere reports whether any provider could answer the request: it goes on from nothing that one of them keeps.
func (x *exchange) anywhere() bool {
	if x.bound {
		return false
	}
	for _, m := range [...]string{"previous_response_id", "conversation", "cachedContent", "cached_content"} {
		if !x.Request.Doc.Get(m).IsNull() {
			return false
		}
	}
	return true
}

// keepMade remembers whose the things are that a provider stored as it answered: the response, its items, and what else the answer gave access
// to, such as a container. They are remembered before the client has the whole answer.
func (x *exchange) keepMade(ctx context.Context, a *answer) error {
	if x.ownKey.IsSet() {
		return nil
	}
	ids := a.made
	if x.keptAt(&a.res) && a.id != "" {
		ids = append(ids, a.id)
	}
	if len(ids) == 0 {
		return nil
	}
	return x.gw.Ledger.Keep(ctx, x.made(a.res.Provider, ids)...)
}

// made are things of the caller's.
func (x *exchange) made(at policy.ProviderID, ids []string) []ledger.Kept {
	things := make([]ledger.Kept, len(ids))
	for i, id := range ids {
		things[i] = ledger.Kept{ID: id, Account: x.Principal.Account, Provider: at}
	}
	return things
}

// names notes the ids in what only the answer's own format says.
func (a *answer) names(ev *chat.Event) {
	if len(ev.Text) == 0 || a.spoken != a.x.Request.Dialect {
		return
	}
	switch ev.Text[0] {
	case '"':
		if ev.ID == itemID {
			a.made = appendID(a.made, ev.Text)
		}
	case '{':
		own := a.spoken == chat.Responses || ev.ID == "container" || ev.ID == "audio"
		a.made = append(a.made, stored.IDs(ev.Text, own)...)
	}
}

// itemID is the extra that names an item of a response.
const itemID = "item_id"

func appendID(ids []string, text jsonx.Raw) []string {
	if id, ok := (jsonx.Value{Raw: text}).Str(); ok && id != "" {
		return append(ids, id)
	}
	return ids
}
