package anthropic

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// prepare resolves the parameters, and the parts of them that are written into the conversation.
func (w *writer) prepare() {
	w.plan = plan{
		opts: &w.opts, own: w.Conv.Params, requested: w.req.MaxTokens, prefilled: w.turns[len(w.turns)-1].Assistant, withoutThinking: !canThink(w.turns),
		degrade: w.Degrade, degradeAs: w.DegradeAs,
	}
	w.resolve(w.req.Profile, w.Conv.ToolChoice)
	if !w.thinks() && w.opts.StripThinking != StripSignatures {
		w.stopThinking()
	}
	w.prompt = w.Conv.System
	if w.guidance != "" {
		w.prompt = append([]chat.Part{{Kind: chat.PartText, Text: w.guidance}}, w.prompt...)
		if w.soleSystem { // sent as the user's turn
			w.prompt = w.prompt[:1]
		}
	}
	if w.prefilled && len(w.sampling.Schema) > 0 && w.opts.takesFormat(w.sampling.Schema) { // a prefilled answer cannot follow a schema
		w.turns = append(w.turns, wire.ContinueTurn())
	}
}

// thinkingMember returns the member "thinking"; nil for none.
func (p *plan) thinkingMember() jsonx.Raw {
	var b []byte
	switch {
	case p.budget > 0:
		b = strconv.AppendInt([]byte(`{"type":"enabled","budget_tokens":`), int64(p.budget), 10)
	case p.adaptive:
		b = []byte(`{"type":"adaptive"`)
	case p.off:
		return jsonx.Raw(`{"type":"disabled"}`)
	default:
		return nil
	}
	if visible := p.sampling.Visible; visible != nil { // K-18
		display := "omitted"
		if *visible {
			display = "summarized"
		}
		b = append(append(b, `,"display":"`...), display...)
		b = append(b, '"')
	}
	return append(b, '}')
}
