package anthropic

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// prepare settles what the request says besides its conversation, and what of that has to stand inside it.
func (w *writer) prepare() {
	w.plan = plan{
		opts: &w.opts, own: w.Conv.Params, asked: w.req.MaxTokens, begun: w.turns[len(w.turns)-1].Assistant, bare: !canThink(w.turns),
		lose: w.Lose, name: w.Name,
	}
	w.settle(w.req.Profile, w.Conv.ToolChoice)
	if !w.thinks() && w.opts.StripThinking != StripSignatures {
		w.stopThinking()
	}
	w.prompt, w.offered = w.Conv.System, w.Conv.Tools
	if w.sampling.MarkCache {
		w.prompt, w.offered = wire.MarkStable(w.Conv, w.opts.MinCache)
	}
	if w.words != "" {
		w.prompt = append([]chat.Part{{Kind: chat.PartText, Text: w.words}}, w.prompt...)
		if w.soleSystem { // is said as the user's turn
			w.prompt = w.prompt[:1]
		}
	}
	if w.begun && len(w.sampling.Schema) > 0 && w.opts.takesFormat(w.sampling.Schema) { // an answer that is begun can follow no schema
		w.turns = append(w.turns, wire.Proceed())
	}
}

// thinkingMember is what a request says about thinking; nil for nothing.
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
