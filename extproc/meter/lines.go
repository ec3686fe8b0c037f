package meter

import "bardo.money/gateway/policy"

// The kinds of lines.
const (
	LineInput        = "input"
	LineCachedInput  = "cached_input"
	LineCacheWrite   = "cache_write"
	LineCacheWrite1h = "cache_write_1h"
	LineOutput       = "output" // reasoning included
	LineRequest      = "request"
	LineSearch       = "search"
	LineReported     = "reported" // what the provider says that the call costs
	LineOther        = "other"    // images, sound and the like, or what a limit took off
)

// Line is a part of what a call cost.
type Line struct {
	Call   *Call
	Kind   string
	Count  int64        // of tokens, or of searches; 0 for what is not counted
	Price  policy.Price // of a million tokens; 0 for what is not billed by tokens
	Cost   policy.Pico
	Origin *policy.PriceOrigin // of the price; nil where the provider said the cost, or nobody noted it
}

// Lines are the parts of what the calls on the bill cost: together they are its provider cost.
func (b *Bill) Lines() []Line {
	if len(b.calls) == 0 {
		return nil
	}
	lines := make([]Line, 0, 2*len(b.calls)) // most calls have input and output
	for i := range b.calls {
		lines = b.appendLines(lines, &b.calls[i])
	}
	return lines
}

func (b *Bill) appendLines(lines []Line, c *Call) []Line {
	u := &c.Usage
	if c.Cost == 0 {
		return lines
	}
	if u.Cost > 0 {
		return append(lines, Line{Call: c, Kind: LineReported, Cost: c.Cost})
	}
	p := b.request.Terms(&c.To).Prices(&c.To, u)
	at := p.At(u.TotalInput())
	rest := c.Cost
	add := func(kind string, count int64, price policy.Price, cost policy.Pico) {
		if cost != 0 {
			lines = append(lines, Line{Call: c, Kind: kind, Count: count, Price: price, Cost: cost, Origin: c.To.Prices.Origin})
			rest -= cost
		}
	}
	add(LineInput, u.Input, at.Input, at.Input.Cost(u.Input))
	add(LineCachedInput, u.Cached, at.CachedInput, at.CachedInput.Cost(u.Cached))
	add(LineCacheWrite, u.CacheWrite, at.CacheWrite, at.CacheWrite.Cost(u.CacheWrite))
	add(LineCacheWrite1h, u.CacheWrite1h, at.CacheWrite1h, at.CacheWrite1h.Cost(u.CacheWrite1h))
	add(LineOutput, u.Output, at.Output, at.Output.Cost(u.Output))
	add(LineRequest, 0, 0, p.PerRequest)
	add(LineSearch, u.Searches, 0, p.PerSearch.Times(u.Searches))
	add(LineOther, 0, 0, rest)
	return lines
}
