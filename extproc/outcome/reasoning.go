package outcome

import (
	"encoding/json"

	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/reasoning"
)

// How an answer's reasoning is shown depends on where the answer is read, not on which model gave it. Stored answers hold all of it.

// reportReasoning reports the reasoning that an answer showed.
func (o *Outcome) reportReasoning(a *reading.Answer) {
	if a.Reasoning != nil && o.Events().On() {
		o.Reasoning(a.Chain(), a.Reasoning.View.Surface)
	}
}

// keepReasoning stores an answer's reasoning for its account, if the surface may request it afterwards.
func (o *Outcome) keepReasoning(a *reading.Answer) {
	if a == nil || a.Reasoning == nil || !a.Reasoning.View.Stores() || !o.MayRetain() {
		return
	}
	c := a.Chain()
	if c.Visibility == reasoning.None {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		o.Logger.Error("an answer's reasoning cannot be kept", "request", o.ID, "error", err)
		return
	}
	o.Reasonings.Put(o.ID, o.Principal.Account, b)
}
