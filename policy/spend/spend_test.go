package spend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/spend"
)

const usd = policy.USD

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// nested are a key's, its project's and its owner's budgets.
func nested(key, project, owner policy.Micro) []policy.Budget {
	return []policy.Budget{
		{Holder: policy.OfKey, ID: "k", PerMonth: key}, {Holder: policy.OfProject, ID: "p", PerDay: project}, {Holder: policy.OfOwner, ID: "o", PerDay: owner},
	}
}

// wantOverBudget returns the cause of a refusal.
func wantOverBudget(t *testing.T, err error) *policy.OverBudget {
	t.Helper()
	f, _ := errors.AsType[*fault.Fault](err)
	o, ok := errors.AsType[*policy.OverBudget](err)
	if !ok || f == nil || f.Kind != fault.BudgetExceeded || f.RetryAfter <= 0 {
		t.Fatalf("%v", err)
	}
	return o
}

// TestB05ARequestFitsIntoEachBudget: the smallest one refuses, with the time of its next period, and nothing is held of the others.
func TestB05ARequestFitsIntoEachBudget(t *testing.T) {
	month := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		budgets []policy.Budget
		holder  policy.Holder
		period  string
		again   time.Time
	}{
		{nested(usd, 2*usd, 3*usd), policy.OfKey, "month", month},
		{nested(3*usd, usd, 2*usd), policy.OfProject, "day", noon.Add(12 * time.Hour)},
		{nested(3*usd, 2*usd, usd), policy.OfOwner, "day", noon.Add(12 * time.Hour)},
	} {
		b := open(t, nil)
		var first, second, third spend.Hold
		if err := b.Hold(t.Context(), noon, row.budgets, usd, &first); err != nil {
			t.Fatal(err)
		}
		o := wantOverBudget(t, b.Hold(t.Context(), noon, row.budgets, usd/2, &second))
		if o.Holder != row.holder || o.Left != usd || !o.RetryAt.Equal(noon.Add(time.Second)) {
			t.Errorf("while it is held: %+v", o)
		}
		first.Done(noon, usd*3/4)
		if err := b.Hold(t.Context(), noon, row.budgets, usd/4, &second); err != nil {
			t.Errorf("what is left: %v", err)
		}
		second.Done(noon, 0)
		o = wantOverBudget(t, b.Hold(t.Context(), noon, row.budgets, usd/2, &third))
		if o.Holder != row.holder || o.Period != row.period || o.Left != usd/4 || !o.RetryAt.Equal(row.again) || o.Action != "refused" {
			t.Errorf("%+v", o)
		}
		if !strings.Contains(o.Error(), fmt.Sprintf("the budget of %s", row.holder)) {
			t.Errorf("%s", o.Error())
		}
		if err := b.Hold(t.Context(), row.again, row.budgets[1:2], usd/2, &third); err != nil {
			t.Errorf("later: %v", err)
		}
	}
}

// TestK70ManyInParallelCannotOverspend: of a thousand requests that cost what they hold, exactly as many are served as the smallest budget allows.
func TestK70ManyInParallelCannotOverspend(t *testing.T) {
	b := open(t, func(context.Context, policy.Budget, time.Time) (policy.Micro, error) { return 100 * usd, nil })
	budgets := nested(1000*usd, 400*usd, 900*usd)
	var served, most, now atomic.Int64
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			var h spend.Hold
			if err := b.Hold(context.Background(), noon, budgets, usd, &h); err != nil {
				if _, ok := errors.AsType[*policy.OverBudget](err); !ok {
					t.Error(err)
				}
				return
			}
			for n := now.Add(1); ; {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			h.Done(noon, usd)
			served.Add(1)
		})
	}
	all.Wait()
	if served.Load() != 300 || most.Load() > 300 {
		t.Errorf("%d were served, %d of them together, and there was room for 300", served.Load(), most.Load())
	}
}

// TestK71ARaisedBudgetCountsAtOnce, and a lowered one; a refusal holds nothing.
func TestK71ARaisedBudgetCountsAtOnce(t *testing.T) {
	b := open(t, nil)
	var h spend.Hold
	for _, row := range []struct {
		limit policy.Micro
		ok    bool
	}{{usd, false}, {3 * usd, true}, {usd, false}, {2 * usd, true}} {
		err := b.Hold(t.Context(), noon, nested(row.limit, 0, 0)[:1], 2*usd, &h)
		if (err == nil) != row.ok {
			t.Errorf("a limit of %s: %v", row.limit, err)
		}
		h.Done(noon, 0)
	}
}

// TestWhatOthersSpentCounts: it is read at the first request, and again after a second; a charge in between is counted twice until then at most.
// TestWhatOthersSpentInTheMonthCounts: it is read since the month's first day.
func TestWhatOthersSpentInTheMonthCounts(t *testing.T) {
	b := open(t, func(_ context.Context, of policy.Budget, since time.Time) (policy.Micro, error) {
		if of.ID != "o" || !since.Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v since %s", of, since)
		}
		return 4 * usd, nil
	})
	budget := []policy.Budget{{Holder: policy.OfOwner, ID: "o", PerMonth: 10 * usd}}
	var first, second spend.Hold
	o := wantOverBudget(t, b.Hold(t.Context(), noon, budget, 6*usd+1, &first))
	if o.Period != "month" || o.Left != 6*usd {
		t.Errorf("%+v", o)
	}
	if err := b.Hold(t.Context(), noon, budget, 6*usd, &second); err != nil {
		t.Error(err)
	}
	second.Done(noon, 0)
}

func TestWhatOthersSpentCounts(t *testing.T) {
	var stored policy.Micro
	reads := 0
	b := open(t, func(_ context.Context, of policy.Budget, since time.Time) (policy.Micro, error) {
		if of.ID != "p" || !since.Equal(noon.Truncate(24*time.Hour)) {
			t.Errorf("%+v since %s", of, since)
		}
		reads++
		return stored, nil
	})
	budget := nested(0, 10*usd, 0)[1:2]
	hold := func(at time.Time, most policy.Micro) error {
		var h spend.Hold
		defer h.Done(at, 0)
		return b.Hold(t.Context(), at, budget, most, &h)
	}
	stored = 4 * usd
	if hold(noon, 6*usd) != nil || hold(noon, 7*usd) == nil || reads != 1 {
		t.Errorf("%d reads", reads)
	}
	var h spend.Hold
	if err := b.Hold(t.Context(), noon, budget, usd, &h); err != nil {
		t.Fatal(err)
	}
	h.Done(noon, usd)
	stored = 6 * usd // of this process and another one
	later := noon.Add(time.Second)
	if b.Immediate(later, budget) {
		t.Error("old figures are read without a wait")
	}
	if hold(later, 4*usd) != nil || hold(later, 5*usd) == nil || b.Immediate(later, budget) == waits || reads != 2 {
		t.Errorf("%d reads", reads)
	}
	tomorrow := noon.Add(12 * time.Hour)
	b = open(t, nil)
	if hold(noon, 10*usd) != nil || hold(tomorrow, 10*usd) != nil {
		t.Error("a new day has its own budget")
	}
}

// TestSpendingThatCannotBeReadIsNotUnlimited.
func TestSpendingThatCannotBeReadIsNotUnlimited(t *testing.T) {
	b := open(t, func(context.Context, policy.Budget, time.Time) (policy.Micro, error) { return 0, errors.New("disk") })
	var h spend.Hold
	for range 2 {
		err := b.Hold(t.Context(), noon, nested(usd, 0, 0)[:1], 1, &h)
		if f, _ := errors.AsType[*fault.Fault](err); f == nil || f.Kind != fault.Unavailable || strings.Contains(f.Public, "disk") {
			t.Errorf("%v", err)
		}
	}
}

// TestALaterChargeCounts: the charge of a request whose hold has ended.
func TestALaterChargeCounts(t *testing.T) {
	b := open(t, nil)
	budgets := nested(usd, 0, 0)[:1]
	b.Count(noon, budgets, usd)
	var h spend.Hold
	if o := wantOverBudget(t, b.Hold(t.Context(), noon, budgets, 0, &h)); o.Left != 0 || !strings.Contains(o.Error(), "is used up until 2026-04-01T00:00:00Z") {
		t.Errorf("%v", o)
	}
}

// TestBudgetsThatAreCountedAreBounded, and one that is held is never dropped.
func TestBudgetsThatAreCountedAreBounded(t *testing.T) {
	b := open(t, nil)
	budgets := nested(usd, 0, 0)[:1]
	var h spend.Hold
	if err := b.Hold(t.Context(), noon, budgets, usd, &h); err != nil {
		t.Fatal(err)
	}
	for i := range spend.MaxBudgets + 100 {
		var other spend.Hold
		if err := b.Hold(t.Context(), noon, []policy.Budget{{Holder: policy.OfKey, ID: fmt.Sprint(i), PerDay: usd}}, 1, &other); err != nil {
			t.Fatal(err)
		}
		other.Done(noon, 0)
	}
	wantOverBudget(t, b.Hold(t.Context(), noon, budgets, usd, &spend.Hold{}))
	if n := b.Len(); n > spend.MaxBudgets {
		t.Errorf("%d budgets are counted", n)
	}
}
