// Package effects records what the layers did for a request: the saving of each, from the usage that providers report, and the observations for the
// governor of their settings. The arithmetic is in extproc/savings.
package effects

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/savings"
	"bardo.money/gateway/policy"
)

// Effects are the effects of one request's layers. The state machine that serves the request owns them, and everything that they point to. Not safe
// for concurrent use.
type Effects struct {
	*report.Report

	saved       []savings.Saved // in the calls so far
	roundOutput int64           // tokens of the last round's answer

	choice governor.Choice
	size   int // bytes of the request before the layers changed it
}

// Called adds what the layers saved in a call. Estimated usage is ignored.
func (e *Effects) Called(to *policy.Resolution, u *chat.Usage, rounds *rounds.State) {
	if u.Estimated || len(e.Log) == 0 || e.Request.Op != chat.Generate {
		return
	}
	if rounds.Done > 0 {
		e.saved = savings.Round(e.saved, rounds.Layer, e.Terms(to).Prices(to, u), u, e.roundOutput)
		e.roundOutput = u.Output
		return
	}
	e.roundOutput = u.Output
	plan := e.Request.Cache
	c := savings.Call{
		Prices: e.Terms(to).Prices(to, u), Usage: u, Estimate: e.Request.InputTokens, MinCache: to.MinCache,
		Marks: e.CachesByMarks(to), Marked: plan.SetsMarks() && !plan.Beside,
	}
	var buf [4]savings.LeftOut
	e.saved = savings.Add(e.saved, &c, e.omitted(buf[:0]))
}

// omitted returns what the layers omitted from the request, in the order in which they ran.
func (e *Effects) omitted(list []savings.LeftOut) []savings.LeftOut {
	for i := range e.Log {
		of := &e.Log[i]
		if of.Removed <= 0 || of.TimedOut {
			continue
		}
		l := savings.LeftOut{Layer: of.Layer, Tokens: of.Removed, Before: of.Change.Before, Again: of.Change.Again}
		l.New = policy.TimesTokens(of.Change.New, of.Removed) / of.Saved // in the same unit
		list = append(list, l)
	}
	return list
}

// Saved returns what each layer saved on the request, less the cost of its side calls, with the caller's spread. It is called once, at the end.
func (e *Effects) Saved(by *policy.Resolution) (list []policy.Saving, sum policy.Micro) {
	for i := range e.Bill.Calls() {
		if c := &e.Bill.Calls()[i]; c.Side != "" && c.Side != meter.Hedge {
			e.saved = savings.Spent(e.saved, c.Side, c.Cost)
		}
	}
	if len(e.saved) == 0 {
		return nil, 0
	}
	list = make([]policy.Saving, len(e.saved))
	for i := range e.saved {
		s := &e.saved[i]
		list[i] = policy.Saving{Layer: s.Layer, Tokens: s.Tokens, Amount: s.Cost.Saving(e.SpreadAt(by.Provider))}
		sum = sum.Plus(list[i].Amount)
	}
	return list, sum
}

// SavedByCache returns the saving of a cached answer: its original cost. A stale answer that replaces failed providers saved nothing: the alternative
// was an error.
func (e *Effects) SavedByCache() (list []policy.Saving, sum policy.Micro) {
	if e.Trace.Cache == record.CacheStale {
		return nil, 0
	}
	stored, layer := e.Stored, e.CacheLayer
	if e.Trace.Cache == record.CacheSemantic {
		layer = layerSemantic
	}
	sum = stored.Cost.Charge(e.Config.Spread(&e.Principal))
	return []policy.Saving{{Layer: layer, Tokens: policy.AddTokens(stored.Usage.TotalInput(), stored.Usage.Output), Amount: sum}}, sum
}

// layerSemantic is the layer that may serve answers which another one stored.
const layerSemantic = "l2"
