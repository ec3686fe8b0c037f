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

// On the operator's account, request members that cost more than tokens are sent only where the catalog has their price, and are charged
// (D-87). Requests on the user's own key may have any.

// DegradedSearch is the name in X-Bardo-Degraded for a web search that the profile wants and that was left out: no price, or no budget.
const DegradedSearch = "web_search"

// FilterByPrice removes the candidates where a member of the request has no price. The error, if none is left, is a fault that names the member.
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

// RemovesSearch reports whether the profile's web search is left out at a candidate: it has no price there, or the budget for it is spent.
func (v *View) RemovesSearch(req *chat.Request, to *policy.Resolution) bool {
	if v.NoSearch && WantsSearch(req) && !v.CallerPays(to.Provider) {
		return true
	}
	return WantsSearch(req) && !v.CallerPays(to.Provider) && !v.Config.Provider(to.Provider).Free && !runtime.IsPriced(&provider.Extra{By: provider.PerSearch}, to)
}

// FilterBySearchPrice removes the candidates that can search the web but have no price for it, if the profile wants a search and another
// candidate has a price. If none has, all stay and the search is left out.
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

// What is reserved for web searches: their number where the request has no limit, and the input tokens of each one's results.
const (
	defaultSearches = 10
	searchTokens    = 8_000 // the number that OpenAI charges per search with fixed-size content
)

// MaxSearches is the maximum number of web searches of one answer that the operator's account pays.
func (v *View) MaxSearches(to *policy.Resolution) (n int64) {
	if v.CallerPays(to.Provider) {
		return 0
	}
	for _, e := range v.Config.Extras(v.Request, to) {
		if e.By == provider.PerSearch {
			most, _ := v.Request.Doc.Get("max_tool_calls").Int()
			n = max(n, cmp.Or(e.MaxUses, max(most, 0), defaultSearches))
		}
	}
	if n == 0 && WantsSearch(v.Request) && !v.RemovesSearch(v.Request, to) {
		n = 1
	}
	return min(n, 100*defaultSearches)
}

// SearchCost is the maximum cost of the web searches of one answer, at the most expensive candidate.
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

// Agent is the key of the budget that the request counts against.
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

// IsFree reports whether an answer of a candidate costs the caller nothing here: the caller pays the provider directly, or all its prices are
// known to be zero.
func (v *View) IsFree(to *policy.Resolution) bool {
	p := &to.Prices
	return v.CallerPays(to.Provider) || p.Known && p.Units == nil && p.Input|p.Output|p.CachedInput|p.CacheWrite|p.CacheWrite1h == 0 && p.PerRequest|p.PerSearch == 0
}
