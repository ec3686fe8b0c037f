package extproc

import (
	"cmp"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// On the operator's account, what costs more than tokens is asked for where it has a price, and charged (D-87). Callers who pay a provider
// themselves may ask it for anything.

// lostSearch is what X-Bardo-Degraded says of a search of the web that the gateway would have asked for, and that has no price.
const lostSearch = "web_search"

// extras lists what of a request costs more than its tokens at a candidate. Who speaks another format than the client is not told of it.
func (rt *Runtime) extras(req *chat.Request, to *policy.Resolution) []provider.Extra {
	p, ok := rt.Providers[to.Provider]
	if !ok || p.Free || req.Op == chat.CountTokens {
		return nil
	}
	charging, ok := p.Adapter.(provider.Charging)
	if !ok || p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) != req.Dialect {
		return nil
	}
	charges := charging.Charges(to, p.Endpoint, req.Dialect)
	return charges.Extras(req)
}

// carries reports whether a candidate is asked in the client's own words.
func (rt *Runtime) carries(req *chat.Request, to *policy.Resolution) bool {
	p, ok := rt.Providers[to.Provider]
	return ok && p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) == req.Dialect
}

// unpriced is the first part of a request that costs more than its tokens at a candidate and has no price there; nil for none.
func (rt *Runtime) unpriced(req *chat.Request, to *policy.Resolution) *unpriced {
	for _, e := range rt.extras(req, to) {
		if !isPriced(&e, to) {
			return &unpriced{e, to.Provider, to.Model}
		}
	}
	return nil
}

// isPriced reports whether the catalog says what a part of a request costs at a candidate.
func isPriced(e *provider.Extra, to *policy.Resolution) bool {
	prices := &to.Prices
	if to.Staked != nil {
		prices = to.Staked
	}
	switch e.By {
	case provider.Nothing:
		return true
	case provider.PerSearch:
		return prices.SearchKnown
	case provider.PerTier:
		_, ok := prices.InTier(e.Value)
		return ok && e.Value != ""
	case provider.Unpriced:
	}
	return false
}

// unpriced is a part of a request that has no price at a candidate.
type unpriced struct {
	provider.Extra

	at    policy.ProviderID
	model policy.ModelID
}

// Error says why the candidate is not asked.
func (u *unpriced) Error() string { return u.name() + " has no price there" }

// name is the member and its value: service_tier "scale".
func (u *unpriced) name() string {
	if u.Value == "" {
		return u.At
	}
	return fmt.Sprintf("%s %q", u.At, u.Value)
}

// fault is what the client is told where no candidate has a price for the part.
func (u *unpriced) fault() *fault.Fault {
	f := fault.New(fault.UnpricedParameter, fmt.Sprintf("%s costs extra, and the gateway knows no price of it for %s at %s: "+
		"leave it out, or use a key of your own there (providers.direct)", u.name(), u.model, u.at), u)
	f.Param = u.At
	return f
}

// priced splits candidates into those that are asked and the first part of the request that keeps another from it. Where nobody is left
// that is asked in the client's own words, those are not asked either that would serve the request without the part.
func (rt *Runtime) priced(req *chat.Request, found []policy.Resolution, direct func(policy.ProviderID) bool) (left []policy.Resolution, refused []*unpriced) {
	carried := false
	for i := range found {
		to := &found[i]
		if !direct(to.Provider) {
			if u := rt.unpriced(req, to); u != nil {
				refused = append(refused, u)
				continue
			}
		}
		carried = carried || rt.carries(req, to)
		left = append(left, *to)
	}
	if len(refused) > 0 && !carried {
		return nil, refused
	}
	return left, refused
}

// meetPrices leaves out the candidates that the request would cost more than anybody knows. The error is a fault that names the member.
func (x *exchange) meetPrices() error {
	left, refused := x.rt.priced(x.Request, x.Found, x.direct)
	if len(left) == 0 {
		return refused[0].fault()
	}
	x.Found = left
	return nil
}

// affordable reports whether a candidate may be asked on the request's behalf besides those of its order.
func (x *exchange) affordable(to *policy.Resolution) bool {
	return x.direct(to.Provider) || x.rt.unpriced(x.Request, to) == nil
}

// wantsSearch reports whether the gateway itself asks for a search of the web in a request.
func wantsSearch(req *chat.Request) bool {
	p := req.Profile
	return p != nil && p.Default.WebSearch != nil && *p.Default.WebSearch
}

// mayNotSearch reports whether a candidate is asked without the search of the web that the request's profile wants: it has no price, or
// the budget for it is spent.
func (x *exchange) mayNotSearch(req *chat.Request, to *policy.Resolution) bool {
	if x.search.spent && wantsSearch(req) && !x.direct(to.Provider) {
		return true
	}
	return wantsSearch(req) && !x.direct(to.Provider) && !x.rt.Providers[to.Provider].Free && !isPriced(&provider.Extra{By: provider.PerSearch}, to)
}

// meetSearch leaves out the candidates whose searches of the web have no price, where the request's profile wants one and others can be
// paid for it. Where there are none, the request is served without.
func (x *exchange) meetSearch() {
	searches := func(to policy.Resolution) bool { return slices.Contains(to.Features, policy.WebSearch) }
	payable := func(to policy.Resolution) bool { return searches(to) && !x.mayNotSearch(x.Request, &to) }
	if !wantsSearch(x.Request) || !slices.ContainsFunc(x.Found, payable) {
		return
	}
	x.Found = slices.DeleteFunc(x.Found, func(to policy.Resolution) bool { return searches(to) && !payable(to) })
	if x.Intent.Model == "" {
		x.Request.Model = string(x.Found[0].Model)
	}
}

// What a request reserves for searches of the web where it does not say how many there may be, and for what each of them brings in.
const (
	usualSearches = 10
	searchTokens  = 8_000 // input: what OpenAI counts for one, where it counts a fixed number
)

// searches is how often a candidate may search the web for one answer, at most.
func (x *exchange) searches(to *policy.Resolution) (n int64) {
	if x.direct(to.Provider) {
		return 0
	}
	for _, e := range x.rt.extras(x.Request, to) {
		if e.By == provider.PerSearch {
			most, _ := x.Request.Doc.Get("max_tool_calls").Int()
			n = max(n, cmp.Or(e.Most, max(most, 0), usualSearches))
		}
	}
	if n == 0 && wantsSearch(x.Request) && !x.mayNotSearch(x.Request, to) {
		n = 1
	}
	return min(n, 100*usualSearches)
}

// searching is the most that the searches of the web of one answer may cost, at the dearest candidate.
func (x *exchange) searching(candidates []policy.Resolution) (cost policy.Pico) {
	for i := range candidates {
		to := &candidates[i]
		if n := x.searches(to); n > 0 {
			in, _ := to.Prices.Dearest(policy.TimesTokens(searchTokens, n))
			cost = max(cost, to.Prices.PerSearch.Times(n).Plus(in.Cost(policy.TimesTokens(searchTokens, n))))
		}
	}
	return cost
}

// meetPrices moves those of an order that cost more than anybody knows to the refused ones.
func (e *Explanation) meetPrices(rt *Runtime, req *chat.Request, found []policy.Resolution) []policy.Resolution {
	left, refused := rt.priced(req, found, rt.Resolver.Direct)
	for _, u := range refused {
		e.Refused = append(e.Refused, resolve.Refusal{Provider: u.at, Model: string(u.model), Reason: u.Error()})
	}
	if len(left) == 0 && len(refused) > 0 {
		e.Error = publicError(refused[0].fault())
	}
	return left
}
