package extproc

import (
	"encoding/json"

	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/fault"
)

// How an answer's reasoning is shown depends on where the answer is read, not on which model gave it. Stored answers hold all of it.

// headerReasoning asks for the reasoning chain beside the answer.
const headerReasoning = "x-bardo-reasoning"

// parseReasoning parses how much of an answer's reasoning is requested.
func (x *exchange) parseReasoning() error {
	switch mode := x.Head.Header.Get(headerReasoning); mode {
	case "", "default":
	case "full":
		x.report.FullChain = true
	default:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Reasoning: %q, expected full or default", fault.Clip(mode))
	}
	return nil
}

// reportReasoning reports the reasoning that an answer showed.
func (x *exchange) reportReasoning(a *reading.Answer) {
	if a.Reasoning != nil && x.report.Events().On() {
		x.report.Reasoning(a.Chain(), a.Reasoning.View.Surface)
	}
}

// keepReasoning stores an answer's reasoning for its account, if the surface may request it afterwards.
func (x *exchange) keepReasoning(a *reading.Answer) {
	if a == nil || a.Reasoning == nil || !a.Reasoning.View.Stores() || !x.MayRetain() {
		return
	}
	c := a.Chain()
	if c.Visibility == reasoning.None {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		x.gw.Log.Error("an answer's reasoning cannot be kept", "request", x.ID, "error", err)
		return
	}
	x.gw.reasonings.Put(x.ID, x.Principal.Account, b)
}
