package meter

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// searchHold is what a request holds of its dream cycle's budget for searches of the web (I-10).
type searchHold struct {
	cycles *budget.Cycles
	cycle  budget.Cycle
	taken  policy.Micro // 0: nothing
}

// HoldSearch sets the price of the request's searches aside, of a cycle's budget. It reports false where that is spent.
func (b *Bill) HoldSearch(cycles *budget.Cycles, cycle budget.Cycle, amount, limit policy.Micro) bool {
	if !cycles.Take(cycle, amount, limit) {
		return false
	}
	b.search = searchHold{cycles, cycle, amount}
	return true
}

// settleSearch turns what was set aside into what the searches on the bill cost.
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
