package extproc

import (
	"encoding/json"

	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/fault"
)

// How an answer's reasoning is shown depends on where the answer is read: on its reader, that is, and not on who gave the answer. What
// is stored of an answer holds all of it.

// headerReasoning asks for the chain beside the answer.
const headerReasoning = "x-bardo-reasoning"

// parseReasoning reads how much of an answer's reasoning is asked for.
func (x *exchange) parseReasoning() error {
	switch how := x.Head.Header.Get(headerReasoning); how {
	case "", "default":
	case "full":
		x.report.FullChain = true
	default:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Reasoning: %q, expected full or default", fault.Clip(how))
	}
	return nil
}

// tellReasoning reports the reasoning that an answer showed.
func (x *exchange) tellReasoning(a *reading.Answer) {
	if a.Reasoning != nil && x.report.Events().On() {
		x.report.Reasoning(a.Chain(), a.Reasoning.View.Surface)
	}
}

// keepReasoning keeps an answer's reasoning for its own account, where the surface may ask for it afterwards.
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
