package meter

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// limit takes off a usage what no call can have used: numbers below zero, and tokens beyond most for input and output together. It
// reports whether there was anything.
func limit(u *chat.Usage, most int64) (capped bool) {
	left := most
	for _, n := range [...]*int64{&u.Input, &u.Cached, &u.CacheWrite, &u.CacheWrite1h, &u.Output} {
		if *n < 0 || *n > left {
			*n, capped = min(max(*n, 0), left), true
		}
		left -= *n
	}
	for _, n := range [...]*int64{&u.Searches, &u.Reasoning} {
		if *n < 0 {
			*n, capped = 0, true
		}
	}
	if u.Searches > mostSearches {
		u.Searches, capped = mostSearches, true
	}
	u.Reasoning = min(u.Reasoning, u.Output)
	return capped
}

// mostSearches is more than any provider searches the web for one answer.
const mostSearches = 1000

// mostCost is the most that a provider can ask for a call by its prices, its searches of the web included.
func (t Terms) mostCost(to *policy.Resolution, u *chat.Usage, tokens int64) policy.Pico {
	p := t.Prices(to, u)
	in, out := p.MostExpensive(tokens)
	return max(in, out).Cost(tokens).Plus(p.PerRequest, p.PerSearch.Times(mostSearches))
}
