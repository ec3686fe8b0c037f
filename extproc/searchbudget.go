package extproc

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
)

// What the searches of the web of a dream cycle may cost (I-10). A dream beyond it is dreamt without.

// partDream is the part of an agent whose searches have a budget.
const partDream = "dream"

// searchHold is what a request may yet cost of its dream cycle's budget for searches.
type searchHold struct {
	cycle budget.Cycle
	taken policy.Micro // 0: nothing
	spent bool         // the budget is: the request may not search
}

// holdSearch sets the price of the request's search aside. It is for where the gateway itself asks for the search: what a client asks for in
// its provider's words is the client's.
func (x *exchange) holdSearch() {
	if !wantsSearch(x.Request) || intent.Root(x.Hints.Subsystem) != partDream {
		return
	}
	var cost policy.Pico
	for i := range x.Found {
		cost = max(cost, x.Found[i].Prices.PerSearch.Times(x.searches(&x.Found[i])))
	}
	h := &x.search
	h.cycle = budget.Cycle{Agent: budget.Agent{Account: x.Principal.Account, ID: x.Hints.GolemID}, ID: x.Hints.DreamCycleID}
	if h.cycle.ID == "" { // an agent that names no cycle has one a day
		h.cycle.ID = x.started.UTC().Format("2006-01-02")
	}
	if amount := cost.Charge(0); amount > 0 && x.gw.searches.Take(h.cycle, amount, x.rt.SearchBudget) {
		h.taken = amount
	} else {
		h.spent = amount > 0
	}
}

// settleSearch turns what was set aside into what the searches on the bill cost.
func (x *exchange) settleSearch() {
	if x.search.taken == 0 {
		return
	}
	var cost policy.Pico
	for _, c := range x.bill.Calls() {
		cost = cost.Plus(c.To.Prices.PerSearch.Times(c.Usage.Searches))
	}
	x.gw.searches.Settle(x.search.cycle, x.search.taken, cost.Charge(0))
	x.search.taken = 0
}
