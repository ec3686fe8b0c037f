package meter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Side calls are made beside a request's own by one of its layers. They are on the request's bill, each as what it is a request of: its prices, and the
// tokens that it can have used, are not those of the request.

// AddSide puts a side call on the bill that a layer had made; r is the call as a request. What its provider cannot have used is not believed: capped is
// true then.
func (b *Bill) AddSide(layer string, r Request, to *policy.Resolution, u chat.Usage) (c *Call, capped bool) {
	return b.add(r, layer, to, u)
}

// InterruptedSide is Interrupted of a side call.
func (b *Bill) InterruptedSide(r Request, to *policy.Resolution, c *Count, since time.Time) chat.Usage {
	return b.interrupted(r, to, c, since)
}

// SideCost is what the side calls on the bill cost their providers.
func (b *Bill) SideCost() (cost policy.Pico) {
	for i := range b.calls {
		if b.calls[i].Side != "" {
			cost = cost.Plus(b.calls[i].Cost)
		}
	}
	return cost
}

// Answers is how many calls of the request itself are on the bill.
func (b *Bill) Answers() (n int) {
	for i := range b.calls {
		if b.calls[i].Side == "" {
			n++
		}
	}
	return n
}

// AnswersWith is With without side calls: what a client sees as the usage of its answer, and what a stored answer cost.
func (b *Bill) AnswersWith(to *policy.Resolution, u *chat.Usage) Total { return b.sum(to, u, false) }
