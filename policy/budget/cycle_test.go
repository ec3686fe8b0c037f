package budget_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/policy/budget"
)

func TestACycleCostsNoMoreThanItMay(t *testing.T) {
	var c budget.Cycles
	var taken atomic.Int64
	var all sync.WaitGroup
	k := budget.Cycle{ID: "c"}
	for range 100 {
		all.Go(func() {
			if c.Take(k, 10, 55) {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 5 {
		t.Errorf("%d times ten of 55 were taken", n)
	}
	c.Settle(k, 10, 0)
	if !c.Take(k, 15, 55) || c.Take(k, 1, 55) || !c.Take(budget.Cycle{ID: "d"}, 55, 55) {
		t.Error("what was given back, or another cycle, cannot be taken, or more can")
	}
}
