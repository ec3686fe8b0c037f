package gemini

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// RequestOptions are a provider's requirements. The zero value suits any server that speaks this format.
type RequestOptions struct {
	MaxOutput int      // the model's output limit in tokens; 0 if unknown
	Levels    []string // the model accepts these values of thinkingLevel, in ascending order; nil: a thinkingBudget
	NoThought bool     // the model has no parameter for thinking
	Always    bool     // the model always thinks: it refuses a thinkingBudget of 0
	WebSearch bool     // the model can search the web
	// SchemaAlone is set if the model accepts either a schema of the answer or tools: the tools stay.
	SchemaAlone bool
	// NoSignatures drops the history's thoughts, and replaces the signatures of calls, because the provider refused them.
	NoSignatures bool
}

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not express. A request in the same
// dialect is spliced: bytes that need no change do not change. A request in another one is written from its conversation, always in the
// same order. The model, and whether the answer is streamed, are in the path. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect == chat.Gemini {
		return splice(buf, req, o)
	}
	c, err := wire.Target{Dialect: chat.Gemini}.Conversation(req)
	if err != nil {
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

// splice writes the client's own bytes with edits. A model in the body, which some clients send, is removed: it is in the path.
func splice(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	e, d := req.Edit, &req.Doc
	if req.Op == chat.Generate && d.Get("model").Exists() {
		e = req.Edit.Clone()
		e.Delete(d, "model")
	}
	if req.Profile != nil {
		e = e.Clone()
		if degraded, err = applyProfile(&e, req, o); err != nil {
			return nil, nil, err
		}
	}
	if o.NoSignatures || mayHaveForeign(d) {
		e = e.Clone()
		degraded = append(degraded, strip(&e, d, o.NoSignatures)...)
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded, nil
}
