// Package savings computes what the layers of the pipeline saved on a provider call: the cost of the same request without the layer's work, less its
// actual cost, from the tokens and cache reads that the provider reported and its prices. It knows tokens and prices; it does not know requests,
// layers' work or who pays.
//
// The layers are undone one after the other, the last one first, so that the savings of all omissions add up to the difference between the original
// request and the one that was sent, and no token counts twice. In doubt a saving is underestimated: an omission from a prompt that the provider read
// from its cache is valued at the price of cached tokens, and tokens that a change may have caused to be written to the cache again count as written
// again.
package savings

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// LeftOut is what one layer omitted from a request. Tokens are estimated, in the unit of Call.Estimate.
type LeftOut struct {
	Layer  string
	Tokens int64
	New    int64 // the part of Tokens that no earlier request had, so that no cache can have it
	Before int64 // tokens of the sent prompt before the first omission
	Again  int64 // tokens of the sent prompt after a change that the previous request did not have, and that were in that request
}

// Call is one provider call for a request, with the reported usage.
type Call struct {
	Prices   *policy.Prices
	Usage    *chat.Usage
	Estimate int64 // tokens of the sent request, in the unit of the omissions
	MinCache int   // minimum tokens of a prompt that the provider caches, 0 if unknown

	Marks  bool // the provider caches only what a request marks
	Marked bool // all marks of the request are layer L1's
}

// Saved is what a layer saved on calls.
type Saved struct {
	Layer  string
	Tokens int64
	Cost   policy.Pico // negative if the layer cost more than it saved
}

// LayerMarks is the layer that marks prompts for providers' caches.
const LayerMarks = "l1"

// Add adds to all what the layers saved on a call. left is in the order in which the layers ran.
func Add(all []Saved, c *Call, left []LeftOut) []Saved {
	sent := promptOf(c.Usage)
	if c.Marks && c.Marked && sent.cached+sent.written() > 0 {
		all = add(all, LayerMarks, 0, c.cost(prompt{input: sent.total(), output: sent.output}).Minus(c.cost(sent)))
	}
	for i := len(left) - 1; i >= 0; i-- {
		l := &left[i]
		without := c.undo(sent, l)
		all = add(all, l.Layer, without.total()-sent.total(), c.cost(without).Minus(c.cost(sent)))
		sent = without
	}
	return all
}

// Round adds the cost of a further call for the request, which answers calls of a layer's own tools: its prompt, and the previous call's answer of
// before tokens, since the client does not get that one.
func Round(all []Saved, layer string, prices *policy.Prices, u *chat.Usage, before int64) []Saved {
	p := promptOf(u)
	return add(all, layer, 0, -prices.Cost(p.input, p.cached, p.write, p.write1h, max(before, 0)))
}

// Spent adds the cost of a layer's side call.
func Spent(all []Saved, layer string, cost policy.Pico) []Saved {
	return add(all, layer, 0, -max(cost, 0))
}

func add(all []Saved, layer string, tokens int64, cost policy.Pico) []Saved {
	for i := range all {
		if all[i].Layer == layer {
			all[i].Tokens = policy.AddTokens(all[i].Tokens, tokens)
			all[i].Cost += cost
			return all
		}
	}
	return append(all, Saved{layer, tokens, cost})
}

// prompt is a call's tokens by price.
type prompt struct{ input, cached, write, write1h, output int64 }

func promptOf(u *chat.Usage) prompt {
	return prompt{max(u.Input, 0), max(u.Cached, 0), max(u.CacheWrite, 0), max(u.CacheWrite1h, 0), max(u.Output, 0)}
}

func (p prompt) written() int64 { return policy.AddTokens(p.write, p.write1h) }

// total returns the tokens of the prompt, without the answer.
func (p prompt) total() int64 {
	return policy.AddTokens(policy.AddTokens(p.input, p.cached), p.written())
}

func (c *Call) cost(p prompt) policy.Pico {
	return c.Prices.Cost(p.input, p.cached, p.write, p.write1h, p.output)
}

// undo returns the prompt that a call would have had without a layer's work.
func (c *Call) undo(p prompt, l *LeftOut) prompt {
	fresh := min(c.real(l.New), c.real(l.Tokens))
	old := c.real(l.Tokens) - fresh
	again := c.real(l.Again)
	if again > 0 && !c.warm(l) {
		again = 0
	}
	if c.Usage.Cached > 0 || again > 0 {
		p.cached = policy.AddTokens(p.cached, old)
	} else {
		p.input = policy.AddTokens(p.input, old)
	}
	for _, from := range [...]*int64{&p.write, &p.write1h} {
		again = move(from, &p.cached, again)
	}
	move(&p.input, &p.cached, again)
	p.input = policy.AddTokens(p.input, fresh)
	return p
}

// move moves up to n tokens from one price to another, and returns the rest of n.
func move(from, to *int64, n int64) int64 {
	n = max(n, 0)
	k := min(n, *from)
	*from -= k
	*to = policy.AddTokens(*to, k)
	return n - k
}

// warm reports whether the provider's cache may have had the previous request. A prefix cache would have been read up to the change.
func (c *Call) warm(l *LeftOut) bool {
	switch u := c.Usage; {
	case u.Cached > 0:
		return true
	case c.Marks:
		return u.CacheWrite > 0 || u.CacheWrite1h > 0
	case c.MinCache == 0:
		return false
	}
	return c.real(l.Before) < int64(c.MinCache)+cacheStep
}

// cacheStep is the granularity of providers' caches in tokens, besides their minimum.
const cacheStep = 128

// real converts an estimate to the provider's tokens, by the ratio of the provider's count to the request's own estimate. It never increases an
// estimate: a provider may count tokens that are in no request, such as a prompt of its own.
func (c *Call) real(n int64) int64 {
	counted := promptOf(c.Usage).total()
	if n <= 0 || c.Estimate <= 0 || counted >= c.Estimate {
		return max(n, 0)
	}
	return policy.TimesTokens(n, counted) / c.Estimate
}
