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
	LineReported     = "reported" // cost reported by the provider
	LineOther        = "other"    // images, audio and the like, or what a limit removed
)

// Line is a part of a call's cost.
type Line struct {
	Call   *Call
	Kind   string
	Count  int64        // tokens or searches; 0 if not counted
	Price  policy.Price // per million tokens; 0 if not billed by tokens
	Cost   policy.Pico
	Origin *policy.PriceOrigin // of the price; nil if the provider reported the cost, or the origin is unknown
}

// Lines returns the parts of the cost of the bill's calls; their sum is the provider cost.
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
	if u.Cost > 0 { // one of 0 has no line
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
