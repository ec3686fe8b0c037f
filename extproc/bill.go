package extproc

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// A request may take several calls of providers: an answer that did not have its form is asked for again, and another model may be asked
// for its opinion. Each call is paid for at its own provider's price, and the request's bill is all of them, once.

// paid is a call on the bill.
type paid struct {
	a     *answer
	to    policy.Resolution
	usage chat.Usage
	cost  policy.Pico // the provider's
}

// charge puts a call whose answer the client does not get on the bill, once.
func (x *exchange) charge(a *answer) {
	if a.counted {
		return
	}
	a.counted = true
	u := a.total(x.Request.InputTokens)
	x.calls = append(x.calls, paid{a, a.res, u, x.costOf(&a.res, &u)})
	x.remember(a)
}

// remember tells the layers who gave an answer, whether the client gets it or not: the conversation's beginning is warm there. Only the
// model that comes first counts, since it is asked first again: another one answers where the first fails, is not sure enough, or is not
// trusted alone.
func (x *exchange) remember(a *answer) {
	if len(x.Found) > 0 && a.res.Model == x.Found[0].Model {
		x.rt.Pipeline.Finish(&x.Exchange, a.res.Provider, x.lastKey(a.res.Provider).id())
	}
}

// owed is what a request took in all: the calls on the bill, and that of an answer which is not there.
func (x *exchange) owed(a *answer) (u chat.Usage, cost policy.Pico) {
	if !a.counted {
		u = a.total(x.Request.InputTokens)
		cost = x.costOf(&a.res, &u)
	}
	earlier, paid := x.onBill()
	return plus(u, earlier), cost + paid
}

// onBill sums the calls on the bill.
func (x *exchange) onBill() (u chat.Usage, cost policy.Pico) {
	for i := range x.calls {
		u = plus(u, x.calls[i].usage)
		cost += x.calls[i].cost
	}
	return u, cost
}

// plus is what two calls used. What either only estimated is estimated.
func plus(u, v chat.Usage) chat.Usage {
	u.Input += v.Input
	u.Cached += v.Cached
	u.CacheWrite += v.CacheWrite
	u.CacheWrite1h += v.CacheWrite1h
	u.Output += v.Output
	u.Reasoning += v.Reasoning
	u.Searches += v.Searches
	u.Estimated = u.Estimated || v.Estimated
	u.ReasoningEstimated = u.ReasoningEstimated || v.ReasoningEstimated
	u.Final = u.Final || v.Final
	u.Cost += v.Cost
	return u
}

// shownUsage has the reports of usage among an answer's events speak of all calls: the client reads what it pays for. The provider's own
// words are of the last call alone.
func shownUsage(events []chat.Event, all chat.Usage) {
	last := -1
	for i := range events {
		if events[i].Kind != chat.UsageInfo {
			continue
		}
		u := &events[i].Usage
		u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h = all.Input, all.Cached, all.CacheWrite, all.CacheWrite1h
		events[i].Text, last = nil, i
	}
	if last >= 0 {
		all.Final = true
		events[last].Usage = all
	}
}

// payable is the answer that a request whose client left is charged by; nil if it took nothing yet. An answer of which nothing came is
// no call that anybody pays for.
func (x *exchange) payable() *answer {
	switch a := x.current; {
	case a != nil && a.content:
		return a
	case len(x.calls) > 0:
		return x.calls[len(x.calls)-1].a
	}
	return nil
}

// chargeRefused charges for the calls of a request that ends in an error, while its money is still set aside: the models did their work.
// It is nil where there are none.
func (x *exchange) chargeRefused(f *fault.Fault) *summary {
	if x.settled != nil || len(x.calls) == 0 {
		return nil
	}
	x.fault = f
	sum, err := x.settle(context.Background(), x.calls[len(x.calls)-1].a, outcomeInvalid)
	if err != nil {
		x.gw.Log.Error("a refused request was not charged", "request", x.ID, "error", err)
		return nil
	}
	return sum
}
