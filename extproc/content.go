package extproc

import (
	"errors"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// What a client asks about is never left out of a request (D-86): a candidate whose format has no place for it is not asked.

// unsupported is what of a request's content a candidate's format has no place for; nil for nothing. Who speaks the client's format is
// sent the request as it came. A request that cannot be parsed is refused where it is written.
func (rt *Runtime) unsupported(req *chat.Request, to *policy.Resolution) *wire.Unsupported {
	p, ok := rt.Providers[to.Provider]
	if !ok {
		return nil
	}
	spoken := p.Adapter.Dialect(*to, p.Endpoint, req.Dialect)
	if spoken == req.Dialect {
		return nil
	}
	c, err := req.Conversation()
	if err != nil {
		return nil //nolint:nilerr // as said above
	}
	u, _ := errors.AsType[*wire.Unsupported](wire.TargetOf(spoken, to).CheckContent(c, req.Dialect))
	return u
}

// meetContent leaves out the candidates whose format has no place for some of the request's content. The error is a fault that names it.
func (x *exchange) meetContent() error {
	var first *wire.Unsupported
	x.Found = slices.DeleteFunc(x.Found, func(to policy.Resolution) bool {
		u := x.rt.unsupported(x.Request, &to)
		if first == nil {
			first = u
		}
		return u != nil
	})
	if len(x.Found) == 0 {
		return first.Fault()
	}
	return nil
}

// placed is a resolver's refusal of content, with the place where the request has it; any other error as it is.
func placed(req *chat.Request, err error) error {
	u, ok := errors.AsType[*resolve.Untaken](err)
	if !ok {
		return err
	}
	c, cerr := req.Conversation()
	if cerr != nil {
		return err
	}
	for _, kind := range untaken[u.Content] {
		if at := wire.FirstOf(c, kind, u.What); at != nil {
			return at.Fault()
		}
	}
	return err
}

// untaken are the kinds of parts that a model must have a feature for.
var untaken = map[policy.Feature][]chat.PartKind{ //nolint:exhaustive // no other is about content
	policy.Vision: {chat.PartImage}, policy.Audio: {chat.PartAudio}, policy.Video: {chat.PartVideo}, policy.Documents: {chat.PartDocument},
}

// meetContent moves those of an order whose format has no place for the request's content to the refused ones.
func (e *Explanation) meetContent(rt *Runtime, req *chat.Request, found []policy.Resolution) (left []policy.Resolution) {
	for i := range found {
		to := &found[i]
		if why := rt.unserved(req, to); why != "" {
			e.Refused = append(e.Refused, resolve.Refusal{Provider: to.Provider, Model: string(to.Model), Reason: why})
			e.Error = publicError(unservedFault(req))
			continue
		}
		if u := rt.unsupported(req, to); u != nil {
			e.Refused = append(e.Refused, resolve.Refusal{Provider: to.Provider, Model: string(to.Model), Reason: u.Error()})
			e.Error = publicError(u.Fault())
			continue
		}
		left = append(left, *to)
	}
	if len(left) > 0 {
		e.Error = ""
	}
	return left
}
