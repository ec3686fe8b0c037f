package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/savings"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// noteSaved adds what the layers saved on a call for the request. A usage that was only estimated says nothing of what was saved.
func (x *exchange) noteSaved(to *policy.Resolution, u *chat.Usage) {
	if u.Estimated || len(x.Log) == 0 || x.Request.Op != chat.Generate {
		return
	}
	if x.rounds.Done > 0 {
		x.saved = savings.Round(x.saved, x.rounds.Layer, x.Terms(to).Prices(to, u), u, x.roundOutput)
		x.roundOutput = u.Output
		return
	}
	x.roundOutput = u.Output
	plan := x.Request.Cache
	c := savings.Call{
		Prices: x.Terms(to).Prices(to, u), Usage: u, Estimate: x.Request.InputTokens, MinCache: to.MinCache,
		Marks: x.CachesByMarks(to), Marked: plan.SetsMarks() && !plan.Beside,
	}
	var buf [4]savings.LeftOut
	x.saved = savings.Add(x.saved, &c, x.leftOut(buf[:0]))
}

// leftOut is what the layers left out of the request, in the order in which they ran.
func (x *exchange) leftOut(list []savings.LeftOut) []savings.LeftOut {
	for i := range x.Log {
		e := &x.Log[i]
		if e.Removed <= 0 || e.TimedOut {
			continue
		}
		l := savings.LeftOut{Layer: e.Layer, Tokens: e.Removed, Before: e.Change.Before, Again: e.Change.Again}
		l.New = policy.TimesTokens(e.Change.New, e.Removed) / e.Saved // in the same measure
		list = append(list, l)
	}
	return list
}

// allSaved is what each layer saved on the request, less what calls of models cost that it had made, with the spread that the caller pays.
func (x *exchange) allSaved(by *policy.Resolution) (list []policy.Saving, sum policy.Micro) {
	for i := range x.bill.Calls() {
		if c := &x.bill.Calls()[i]; c.Side != "" {
			x.saved = savings.Spent(x.saved, c.Side, c.Cost)
		}
	}
	if len(x.saved) == 0 {
		return nil, 0
	}
	list = make([]policy.Saving, len(x.saved))
	for i := range x.saved {
		s := &x.saved[i]
		list[i] = policy.Saving{Layer: s.Layer, Tokens: s.Tokens, Amount: s.Cost.Saving(x.SpreadAt(by.Provider))}
		sum = sum.Plus(list[i].Amount)
	}
	return list, sum
}

// savedByCache is what an answer saved that was not made for this request: what it cost when it was made. One that stands in for providers that failed saved
// nothing: without it there would have been an error.
func (x *exchange) savedByCache() (list []policy.Saving, sum policy.Micro) {
	if x.trace.Cache == record.CacheStale {
		return nil, 0
	}
	e, layer := x.report.Stored, x.CacheLayer
	if x.trace.Cache == record.CacheSemantic {
		layer = layerSemantic
	}
	sum = e.Cost.Charge(x.Config.Spread(&x.Principal))
	return []policy.Saving{{Layer: layer, Tokens: policy.AddTokens(e.Usage.TotalInput(), e.Usage.Output), Amount: sum}}, sum
}

// layerSemantic is the layer whose answers may have been stored by another one.
const layerSemantic = "l2"

// govern gives the layers of a request the governor's values.
func (x *exchange) govern() {
	if !x.gw.Governor.Enabled() || x.Request.Op != chat.Generate {
		return
	}
	if p := x.Profile; p != "" && p != pipeline.ProfileStandard && p != pipeline.ProfileFull {
		return // none of the governed layers runs
	}
	x.requestSize = len(x.Request.Doc.Bytes)
	talk, request := conversation.Identity(&x.Request.Doc, x.Principal.Account, x.Hints.SessionID)
	x.choice = x.gw.Governor.Choose(x.report.Task, talk, request)
	x.Knobs = x.choice.Knobs
}

// governed tells the governor what became of the request.
func (x *exchange) governed() {
	s := x.trace.Settled
	if !x.choice.Active() || s == nil || s.Outcome != record.OK && s.Outcome != record.Invalid {
		return
	}
	o := governor.Outcome{
		RequestID: x.ID, Regime: x.Hints.Regime, Size: x.requestSize, Input: s.Usage.TotalInput(), Cached: s.Usage.Cached, Cost: s.Charged,
		Retried: x.choice.Again && x.later == nil && (!s.Stored || x.trace.Cache == record.CacheSemantic), SchemaFailure: s.Outcome == record.Invalid || x.failedValidation != nil,
		Overridden: x.Hints.Pipeline != "" || x.Hints.NoCache,
	}
	for i := range x.Log {
		e := &x.Log[i]
		l := governor.LayerOutcome{Layer: e.Layer, Recalled: e.Recalled}
		for k := range s.Savings {
			if s.Savings[k].Layer == e.Layer {
				l.Tokens, l.Saved = s.Savings[k].Tokens, s.Savings[k].Amount
			}
		}
		o.Layers = append(o.Layers, l)
	}
	x.gw.Governor.Observe(&x.choice, &o)
}

// eventGovernor is the event of a knob that was changed, or would be.
var eventGovernor = event.Declare[*governor.Change]("governor:changed", "The governor changed a setting of a layer, or would.")

// rated tells the governor what a caller said of an answer.
func (g *Gateway) rated(f, before *ledger.Feedback) {
	var was *float64
	if before != nil {
		score := float64(before.Score) / ledger.PerfectScore
		was = &score
	}
	g.Governor.Rate(f.RequestID, float64(f.Score)/ledger.PerfectScore, was)
}

// knobChanged tells operators of a knob that was changed, or would be.
func (g *Gateway) knobChanged(c *governor.Change) {
	g.Metrics.KnobChanged(c.Knob, c.Applied)
	g.Log.Info("the governor changes a setting of a layer", "task", c.Task, "knob", c.Knob, "from", c.From, "to", c.To, "applied", c.Applied)
	eventGovernor.Emit(g.Events, "", c)
}
