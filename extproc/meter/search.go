package meter

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// searchHold is a request's reservation from its dream cycle's budget for web searches (I-10).
type searchHold struct {
	cycles *budget.Cycles
	cycle  budget.Cycle
	taken  policy.Micro // 0 for none
}

// HoldSearch reserves the price of the request's searches from a cycle's budget. It returns false if the budget is spent.
func (b *Bill) HoldSearch(cycles *budget.Cycles, cycle budget.Cycle, amount, limit policy.Micro) bool {
	if !cycles.Take(cycle, amount, limit) {
		return false
	}
	b.search = searchHold{cycles, cycle, amount}
	return true
}

// settleSearch replaces the reservation by the cost of the searches on the bill.
func (b *Bill) settleSearch() {
	if b.search.taken == 0 {
		return
	}
	var cost policy.Pico
	for i := range b.calls {
		c := &b.calls[i]
		cost = cost.Plus(c.To.Prices.PerSearch.Times(c.Usage.Searches))
	}
	b.search.cycles.Settle(b.search.cycle, b.search.taken, cost.Charge(0))
	b.search.taken = 0
}
