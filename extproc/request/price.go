package request

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// Request members that cost more than tokens: on the operator's account they are sent only if the catalog has their price, and are charged (D-87).
// With the user's own key there is no restriction.

// DegradedSearch is the entry in X-Bardo-Degraded for a profile's web search that was omitted for lack of a price or budget.
const DegradedSearch = "web_search"

// FilterByPrice removes the candidates that have no price for a member of the request. The error, if none is left, is a fault that names the member.
func (v *View) FilterByPrice() error {
	left, refused := v.Config.Priced(v.Request, v.Found, v.CallerPays)
	if len(left) == 0 {
		return refused[0].Fault()
	}
	v.Found = left
	return nil
}

// HasPrices reports whether the cost of the request at a candidate is known, or the caller pays it.
func (v *View) HasPrices(to *policy.Resolution) bool {
	return v.CallerPays(to.Provider) || v.Config.Unpriced(v.Request, to) == nil
}

// WantsSearch reports whether the profile, not the client, adds a web search to the request.
func WantsSearch(req *chat.Request) bool {
	p := req.Profile
	return p != nil && p.Default.WebSearch != nil && *p.Default.WebSearch
}

// RemovesSearch reports whether the profile's web search is omitted at a candidate: it has no price there, or its budget is spent.
func (v *View) RemovesSearch(req *chat.Request, to *policy.Resolution) bool {
	if v.NoSearch && WantsSearch(req) && !v.CallerPays(to.Provider) {
		return true
	}
	return WantsSearch(req) && !v.CallerPays(to.Provider) && !v.Config.Provider(to.Provider).Free && !runtime.IsPriced(&provider.Extra{By: provider.PerSearch}, to)
}

// FilterBySearchPrice removes the candidates that support web search without a price, if the profile adds a search and another candidate has a price.
// If none has, all stay and the search is omitted.
func (v *View) FilterBySearchPrice() {
	searches := func(to policy.Resolution) bool { return slices.Contains(to.Features, policy.WebSearch) }
	payable := func(to policy.Resolution) bool { return searches(to) && !v.RemovesSearch(v.Request, &to) }
	if !WantsSearch(v.Request) || !slices.ContainsFunc(v.Found, payable) {
		return
	}
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool { return searches(to) && !payable(to) })
	if v.Intent.Model == "" {
		v.Request.Model = string(v.Found[0].Model)
	}
}

// Reservation for web searches: their number if the request sets no limit, and the input tokens of each one's results.
const (
	defaultSearches = 10
	searchTokens    = 8_000 // the number that OpenAI charges per search with fixed-size content
)

// MaxSearches returns the maximum number of web searches in one answer that the operator's account pays for.
func (v *View) MaxSearches(to *policy.Resolution) (n int64) {
	if v.CallerPays(to.Provider) {
		return 0
	}
	for _, e := range v.Config.Extras(v.Request, to) {
		if e.By == provider.PerSearch {
			maxCalls, _ := v.Request.Doc.Get("max_tool_calls").Int()
			n = max(n, cmp.Or(e.MaxUses, max(maxCalls, 0), defaultSearches))
		}
	}
	if n == 0 && WantsSearch(v.Request) && !v.RemovesSearch(v.Request, to) {
		n = 1
	}
	return min(n, 100*defaultSearches)
}

// SearchCost returns the maximum cost of the web searches of one answer, at the most expensive candidate.
func (v *View) SearchCost(candidates []policy.Resolution) (cost policy.Pico) {
	for i := range candidates {
		to := &candidates[i]
		if n := v.MaxSearches(to); n > 0 {
			in, _ := to.Prices.MostExpensive(policy.TimesTokens(searchTokens, n))
			cost = max(cost, to.Prices.PerSearch.Times(n).Plus(in.Cost(policy.TimesTokens(searchTokens, n))))
		}
	}
	return cost
}

// Agent returns the key of the budget that the request counts against.
func (v *View) Agent() budget.Agent {
	return budget.Agent{Account: v.Principal.Account, ID: v.Hints.GolemID}
}

// FirstIsFree reports whether the first candidate of a new resolution costs the caller nothing.
func (v *View) FirstIsFree() bool {
	f := hint.Facts(v.Request, int64(v.Request.MaxTokens))
	built := v.Config.Needs(&v.Hints, &f, &v.Principal)
	d := v.Config.Resolver.Decide(&built.Intent)
	return d.Err == nil && len(d.Order) > 0 && v.IsFree(&d.Order[0])
}

// IsFree reports whether an answer of a candidate costs the caller nothing: the caller pays the provider directly, or all prices are known to be
// zero.
func (v *View) IsFree(to *policy.Resolution) bool {
	p := &to.Prices
	return v.CallerPays(to.Provider) || p.Known && p.Units == nil && p.Input|p.Output|p.CachedInput|p.CacheWrite|p.CacheWrite1h == 0 && p.PerRequest|p.PerSearch == 0
}
