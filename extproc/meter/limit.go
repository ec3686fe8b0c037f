package meter

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// limit removes impossible usage: negative numbers, and tokens beyond maxTokens for input and output together. It reports whether there was any.
func limit(u *chat.Usage, maxTokens int64) (capped bool) {
	left := maxTokens
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
	if u.Searches > maxSearches {
		u.Searches, capped = maxSearches, true
	}
	u.Reasoning = min(u.Reasoning, u.Output)
	return capped
}

// maxSearches is the maximum number of web searches that is accepted for one answer.
const maxSearches = 1000

// maxCost returns the maximum that a provider can charge for a call by its prices, web searches included.
func (t Terms) maxCost(to *policy.Resolution, u *chat.Usage, tokens int64) policy.Pico {
	p := t.Prices(to, u)
	in, out := p.MostExpensive(tokens)
	return max(in, out).Cost(tokens).Plus(p.PerRequest, p.PerSearch.Times(maxSearches))
}
