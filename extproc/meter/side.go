package meter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Side calls are made by one of a request's layers. They are on the request's bill, but each has its own prices and token limits.

// Hedge is the name, in place of a layer's, of the call that lost of two that were sent because the first was slow: the winner is one of the request's own. Its
// estimated usage is within its own reservation (Extend), so it does not limit the charge of the others.
const Hedge = "hedge"

// AddSide adds a layer's side call to the bill; r is the call as a request. Usage beyond what the call can have used is cut off; capped is true then.
func (b *Bill) AddSide(layer string, r Request, to *policy.Resolution, u chat.Usage) (c *Call, capped bool) {
	return b.add(r, layer, to, u)
}

// InterruptedSide is Interrupted for a side call.
func (b *Bill) InterruptedSide(r Request, to *policy.Resolution, c *Count, since time.Time) chat.Usage {
	return b.interrupted(r, to, c, since)
}

// SideCost returns the provider cost of the side calls on the bill.
func (b *Bill) SideCost() (cost policy.Pico) {
	for i := range b.calls {
		if b.calls[i].Side != "" {
			cost = cost.Plus(b.calls[i].Cost)
		}
	}
	return cost
}

// Answers returns the number of the request's own calls on the bill.
func (b *Bill) Answers() (n int) {
	for i := range b.calls {
		if b.calls[i].Side == "" {
			n++
		}
	}
	return n
}

// AnswersWith is With without side calls: the usage that a client sees, and the cost of a stored answer.
func (b *Bill) AnswersWith(to *policy.Resolution, u *chat.Usage) Total { return b.sum(to, u, false) }
