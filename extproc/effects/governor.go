package effects

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy/ledger"
)

// Govern sets the governor's values for the request's layers, before they run.
func (e *Effects) Govern(g *governor.Governor) {
	if !g.Enabled() || e.Request.Op != chat.Generate {
		return
	}
	if p := e.View.Profile; p != "" && p != pipeline.ProfileStandard && p != pipeline.ProfileFull {
		return // none of the governed layers runs
	}
	e.size = len(e.Request.Doc.Bytes)
	talk, request := conversation.Identity(&e.Request.Doc, e.Principal.Account, e.Hints.SessionID)
	e.choice = g.Choose(e.Task, talk, request)
	e.Knobs = e.choice.Knobs
}

// Observed reports the request's outcome to the governor. invalid reports whether one of its answers violated its schema.
func (e *Effects) Observed(g *governor.Governor, invalid bool) {
	s := e.Trace.Settled
	if !e.choice.Active() || s == nil || s.Outcome != record.OK && s.Outcome != record.Invalid {
		return
	}
	o := governor.Outcome{
		RequestID: e.ID, Regime: e.Hints.Regime, Size: e.size, Input: s.Usage.TotalInput(), Cached: s.Usage.Cached, Cost: s.Charged,
		Retried: e.choice.Again && e.Later == nil && (!s.Stored || e.Trace.Cache == record.CacheSemantic), SchemaFailure: s.Outcome == record.Invalid || invalid,
		Overridden: e.Hints.Pipeline != "" || e.Hints.NoCache,
	}
	for i := range e.Log {
		of := &e.Log[i]
		l := governor.LayerOutcome{Layer: of.Layer, Recalled: of.Recalled}
		for k := range s.Savings {
			if s.Savings[k].Layer == of.Layer {
				l.Tokens, l.Saved = s.Savings[k].Tokens, s.Savings[k].Amount
			}
		}
		o.Layers = append(o.Layers, l)
	}
	g.Observe(&e.choice, &o)
}

// Rated reports a caller's score of an answer to the governor, and the score that it replaces; nil for none.
func Rated(g *governor.Governor, f, before *ledger.Feedback) {
	var was *float64
	if before != nil {
		score := float64(before.Score) / ledger.PerfectScore
		was = &score
	}
	g.Rate(f.RequestID, float64(f.Score)/ledger.PerfectScore, was)
}

// EventGovernor is the event of a knob that was changed, or would be.
var EventGovernor = event.Declare[*governor.Change]("governor:changed", "The governor changed a setting of a layer, or would.")
