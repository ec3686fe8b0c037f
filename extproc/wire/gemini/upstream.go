package gemini

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// RequestOptions say what a provider wants to read. The zero value suits any server that speaks this format.
type RequestOptions struct {
	MaxOutput int      // the model's output limit in tokens; 0 if unknown
	Levels    []string // the model takes a thinkingLevel, of these, least first; nil: a thinkingBudget
	NoThought bool     // the model takes no word about thinking
	WebSearch bool     // the model can search the web
	// SchemaAlone is set where the model takes a schema of the answer or tools, not both: the tools stay.
	SchemaAlone bool
	// NoSignatures leaves the history's thoughts out, and calls without the signatures that a model gave: the provider refused them.
	NoSignatures bool
}

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not say. A request in
// the same dialect is spliced: what need not change does not. A request in another is written from its conversation, always
// in the same order. The model, and whether the answer is streamed, are said in the path. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect == chat.Gemini {
		return splice(buf, req, o)
	}
	c, err := req.Conversation()
	if err != nil {
		return nil, nil, err
	}
	if err := wire.CheckCalls(c); err != nil {
		return nil, nil, err
	}
	if err := (wire.Target{Dialect: chat.Gemini}).CheckContent(c, req.Dialect); err != nil {
		return nil, nil, err
	}
	w := writer{Writer: wire.Writer{Dst: buf, Conv: c}, req: req, opts: o}
	if w.turns, err = w.alternate(); err != nil {
		return nil, nil, err
	}
	w.plan()
	w.request()
	return w.Dst, w.Degraded, w.Refused
}

// splice passes a client's own bytes. A model that some clients name in the body, too, is left to the path.
func splice(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	e, d := req.Edit, &req.Doc
	if req.Op == chat.Generate && d.Get("model").Exists() {
		e = req.Edit.Clone()
		e.Delete(d, "model")
	}
	if req.Profile != nil {
		e = e.Clone()
		if degraded, err = profile(&e, req, o); err != nil {
			return nil, nil, err
		}
	}
	if o.NoSignatures || d.MayHold(wrapped) {
		e = e.Clone()
		degraded = append(degraded, strip(&e, d, o.NoSignatures)...)
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded, nil
}
