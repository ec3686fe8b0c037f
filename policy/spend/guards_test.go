package spend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/spend"
)

// daily is the budget of a project for the day.
func daily(id string, most policy.Micro) policy.Budget {
	return policy.Budget{Holder: policy.OfProject, ID: id, PerDay: most}
}

// TestSpendingReadForYesterdayDoesNotCountToday: the day ends during the read.
func TestSpendingReadForYesterdayDoesNotCountToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		b := spend.New(func(context.Context, policy.Budget, time.Time) (policy.Micro, error) {
			<-read
			return usd, nil
		})
		budgets := []policy.Budget{daily("p", usd)}
		midnight := noon.Add(12 * time.Hour)
		hold := func(at time.Time) chan error {
			out := make(chan error, 1)
			go func() { out <- b.Hold(context.Background(), at, budgets, usd/2, &spend.Hold{}) }()
			synctest.Wait()
			return out
		}
		before, after := hold(midnight.Add(-time.Second)), hold(midnight)
		close(read)
		<-before
		if err := <-after; err != nil {
			t.Errorf("of the new day: %v", err)
		}
	})
}

// TestChargesMissingInTheLedgerCount: charges are in the ledger a moment later.
func TestChargesMissingInTheLedgerCount(t *testing.T) {
	b := spend.New(func(context.Context, policy.Budget, time.Time) (policy.Micro, error) { return 0, nil })
	budgets := []policy.Budget{daily("p", usd)}
	var h, more spend.Hold
	if err := b.Hold(t.Context(), noon, budgets, usd*3/4, &h); err != nil {
		t.Fatal(err)
	}
	h.Done(noon, usd*3/4)
	wantOverBudget(t, b.Hold(t.Context(), noon.Add(time.Minute), budgets, usd/2, &more))
}

// TestAClockThatWasSetBackHasSpendingReadAgain.
func TestAClockThatWasSetBackHasSpendingReadAgain(t *testing.T) {
	reads := 0
	b := spend.New(func(context.Context, policy.Budget, time.Time) (policy.Micro, error) { reads++; return 0, nil })
	budgets := []policy.Budget{daily("p", usd)}
	for i, at := range []time.Time{noon, noon.Add(time.Millisecond), noon.Add(-time.Hour)} {
		var h spend.Hold
		if err := b.Hold(t.Context(), at, budgets, 1, &h); err != nil {
			t.Fatal(err)
		}
		h.Done(at, 0)
		if want := []int{1, 1, 2}[i]; reads != want {
			t.Errorf("it was read %d times, want %d", reads, want)
		}
	}
}

// TestABudgetThatCouldNotBeReadIsDropped, like any other one without holds, once there are too many.
func TestABudgetThatCouldNotBeReadIsDropped(t *testing.T) {
	b := spend.New(func(context.Context, policy.Budget, time.Time) (policy.Micro, error) { return 0, errors.New("away") })
	for i := range spend.MaxBudgets + 100 {
		id := string([]rune{rune(0x10000 + i)})
		if err := b.Hold(t.Context(), noon, []policy.Budget{daily(id, usd)}, 1, &spend.Hold{}); err == nil {
			t.Fatal("it is held")
		}
	}
	if n := b.Len(); n > spend.MaxBudgets {
		t.Errorf("%d budgets are kept, want at most %d", n, spend.MaxBudgets)
	}
}

// sharedBudgets counts budgets like a store of several gateways.
type sharedBudgets map[string]policy.Micro

// HoldBudget implements spend.SharedCounter.
func (g sharedBudgets) HoldBudget(_ context.Context, _ time.Time, of *policy.Budget, most policy.Micro) (func(time.Time, policy.Micro), error) {
	if g[of.ID]+most > of.PerDay {
		return nil, &policy.OverBudget{Holder: of.Holder, ID: of.ID, Period: "day", Limit: of.PerDay, MaxCost: most}
	}
	g[of.ID] += most
	return func(_ time.Time, charged policy.Micro) { g[of.ID] += charged - most }, nil
}

// CountBudget implements spend.SharedCounter.
func (g sharedBudgets) CountBudget(_ time.Time, of *policy.Budget, charged policy.Micro) {
	g[of.ID] += charged
}

// TestARefusedRequestHoldsNothingOfTheOtherBudgets with shared counters.
func TestARefusedRequestHoldsNothingOfTheOtherBudgets(t *testing.T) {
	g := sharedBudgets{}
	b := spend.NewShared(g)
	wantOverBudget(t, b.Hold(t.Context(), noon, []policy.Budget{daily("wide", 10*usd), daily("narrow", usd)}, 2*usd, &spend.Hold{}))
	if g["wide"] != 0 {
		t.Errorf("%s is held", g["wide"])
	}
}
