package outcome

import (
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
)

// billLastCall bills the call that the request ends with.
func (o *Outcome) billLastCall(a *reading.Answer, outcome string) {
	switch {
	case a != nil && !a.Counted && (outcome == record.OK || outcome == record.Invalid || outcome == record.Refused):
		o.billAnswer(a, a.Total())
	case outcome == record.Cut || outcome == record.Cancelled || outcome == record.Disconnected:
		o.Interrupt(a)
	}
}

// Interrupt bills the call in flight, if any, for the part that was received: the request ends during it.
func (o *Outcome) Interrupt(a *reading.Answer) {
	to, since := o.Bill.InFlight()
	if to == nil {
		return
	}
	var c *meter.Count
	if a != nil && !a.Counted {
		a.Counted, c = true, &a.Count
	}
	if c == nil || !a.Content {
		o.Trace.Attempts = append(o.Trace.Attempts, record.Attempt{
			Provider: to.Provider, Model: to.Model, Outcome: record.ClientClosed, Began: since, Took: time.Since(since),
		})
	}
	u := o.Bill.Interrupted(to, c, since)
	o.Bill.EndCall()
	if o.Bill.Add(to, u) {
		o.Capped(to, &u)
	}
}

// Charge bills a call whose answer the client does not get, once.
func (o *Outcome) Charge(a *reading.Answer) {
	if a.Counted {
		return
	}
	o.billAnswer(a, a.Total())
	o.notifyLayers(a)
}

// billAnswer adds the usage of an answer to the bill.
func (o *Outcome) billAnswer(a *reading.Answer, u chat.Usage) {
	a.Counted = true
	if !a.Parallel {
		o.Bill.EndCall()
	}
	if o.Bill.Add(&a.By, u) {
		o.Capped(&a.By, &u)
	}
	o.Effects.Called(&a.By, &u, o.Rounds)
}

// notifyLayers notifies the layers which provider answered, whether the client gets the answer or not: its prompt cache now holds the conversation.
// Only the first candidate's model counts, because it is called first next time; other models only answer after a failure, an escalation or a
// verification.
func (o *Outcome) notifyLayers(a *reading.Answer) {
	o.rememberTurn(&a.By)
	if len(o.Found) > 0 && a.By.Model == o.Found[0].Model {
		o.Config.Pipeline.Finish(&o.Exchange, a.By.Provider, o.Calls.LastKey(a.By.Provider).ID())
	}
}

// rememberTurn stores which candidate served the turn.
func (o *Outcome) rememberTurn(by *policy.Resolution) {
	if !slices.ContainsFunc(o.Found, func(r policy.Resolution) bool { return r.Provider == by.Provider && r.Model == by.Model }) {
		return
	}
	o.Conversations.Record(&o.Turn, policy.ServedBy{Provider: by.Provider, Model: by.Model, Quality: o.Intent.Quality, Tokens: o.Request.InputTokens})
}

// learnTokens corrects a model's token estimates by its provider's count of the request as it was sent: for text only, and without anything that the
// gateway added.
func (o *Outcome) learnTokens(a *reading.Answer) {
	u := &a.Count.Reported
	if r := o.Request; r.Op == chat.Generate && r.Doc.Stats.Opaque == 0 && a.Form == nil && u.Final {
		o.Meter.LearnTokens(a.By.Model, r.InputTokens, u.TotalInput())
	}
}
