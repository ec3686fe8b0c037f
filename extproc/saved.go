package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/savings"
	"bardo.money/gateway/policy"
)

// What the layers saved: on each call for the request, by the usage that its provider reported (package savings), and by answers from the cache. It counts
// once the request has its answer; one that failed saved nothing.

// noteSaved adds what the layers saved on a call for the request. A usage that was only estimated says nothing of what was saved.
func (x *exchange) noteSaved(to *policy.Resolution, u *chat.Usage) {
	if u.Estimated || len(x.Log) == 0 || x.Request.Op != chat.Generate {
		return
	}
	if x.rounds.done > 0 {
		x.saved = savings.Round(x.saved, x.roundsOf, x.Terms(to).Prices(to, u), u, x.roundOutput)
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

// layerSemantic is the layer whose answers may have been stored by another one.
const layerSemantic = "l2"

// savedByCache is what an answer saved that was not made for this request: what it cost when it was made. One that stands in for providers that failed saved
// nothing: without it there would have been an error.
func (x *exchange) savedByCache() (list []policy.Saving, sum policy.Micro) {
	if x.trace.Cache == record.CacheStale {
		return nil, 0
	}
	e, layer := x.stored, x.CacheLayer
	if x.trace.Cache == record.CacheSemantic {
		layer = layerSemantic
	}
	sum = e.Cost.Charge(x.Config.Spread(x.Principal.Tier))
	return []policy.Saving{{Layer: layer, Tokens: policy.AddTokens(e.Usage.TotalInput(), e.Usage.Output), Amount: sum}}, sum
}
