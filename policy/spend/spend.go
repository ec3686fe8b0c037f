// Package spend enforces budgets that many requests share: a key's per month, and its project's and its owner's per day and month (UTC). Each
// request must fit into all of them with its highest possible cost, which is held until it is charged, so that concurrent requests cannot overspend.
// It counts in memory, per process, and reads the spending of other processes from the ledger, up to a second old; or gateways share counters
// (SharedCounter). It does not know HTTP, prices or the ledger.
package spend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Spent reads the charges of a budget's holder since the beginning of a UTC day, by all processes.
type Spent func(ctx context.Context, of policy.Budget, since time.Time) (policy.Micro, error)

// Book counts the spent and held amounts of budgets. Safe for concurrent use.
type Book struct {
	spent   Spent
	reading singleflight.Group

	mu       sync.Mutex
	counters *simplelru.LRU[budgetKey, *counters]

	shared SharedCounter // nil: this process counts alone
}

// SharedCounter counts budgets for several gateways. Implementations are safe for concurrent use.
type SharedCounter interface {
	// HoldBudget holds an amount of a budget until done, which must be called once, replaces it by the charge. The error is a *policy.OverBudget without RetryAt,
	// or a fault of kind Unavailable.
	HoldBudget(ctx context.Context, now time.Time, of *policy.Budget, maxCost policy.Micro) (done func(now time.Time, charged policy.Micro), err error)
	// CountBudget counts a charge of a request without a hold.
	CountBudget(now time.Time, of *policy.Budget, charged policy.Micro)
}

// NewShared returns a book whose counters are shared with other gateways.
func NewShared(t SharedCounter) *Book { return &Book{shared: t} }

// MaxBudgets limits the counted budgets. Beyond it the least recently used ones without holds are dropped, and read from the ledger again.
const MaxBudgets = 1 << 16

// New returns a book.
func New(spent Spent) *Book {
	lines, _ := simplelru.NewLRU[budgetKey, *counters](2*MaxBudgets, nil) // fails for sizes below 1 only
	return &Book{spent: spent, counters: lines}
}

// budgetKey identifies a budget.
type budgetKey struct {
	holder policy.Holder
	id     string
}

// Hold is the amount that one request holds of its budgets. The zero value holds nothing. Not safe for concurrent use.
type Hold struct {
	counters []*counters
	amount   policy.Micro
	dones    []func(time.Time, policy.Micro) // of shared counters
}

// Hold replaces h by a hold of an amount of all budgets. After an error h holds nothing: the error is a fault of kind BudgetExceeded whose cause is a
// *policy.OverBudget, or Unavailable if earlier spending cannot be read. A used-up budget also refuses a request without a cost.
func (b *Book) Hold(ctx context.Context, now time.Time, budgets []policy.Budget, maxCost policy.Micro, h *Hold) error {
	h.Done(now, 0)
	maxCost = clamp(maxCost)
	if b.shared != nil {
		return b.holdShared(ctx, now, budgets, maxCost, h)
	}
	for i := range budgets {
		l := b.use(&budgets[i])
		if err := b.refresh(ctx, now, &budgets[i], l); err != nil {
			l.release()
			h.Done(now, 0)
			return fault.New(fault.Unavailable, "the budgets of this key cannot be read at the moment", err)
		}
		if r := l.hold(now, &budgets[i], maxCost); r != nil {
			l.release()
			h.amount = maxCost
			h.Done(now, 0)
			return overBudget(now, r)
		}
		h.counters = append(h.counters, l)
	}
	h.amount = maxCost
	return nil
}

func (b *Book) holdShared(ctx context.Context, now time.Time, budgets []policy.Budget, maxCost policy.Micro, h *Hold) error {
	for i := range budgets {
		done, err := b.shared.HoldBudget(ctx, now, &budgets[i], maxCost)
		if err != nil {
			h.Done(now, 0)
		}
		if o, ok := errors.AsType[*policy.OverBudget](err); ok {
			o.RetryAt = retryAt(now, periodOf(o.Period), o.Left, maxCost)
			return overBudget(now, o)
		}
		if err != nil {
			return err
		}
		h.dones = append(h.dones, done)
	}
	return nil
}

// Done replaces the held amount by the charge. Only the first call after Hold has an effect.
func (h *Hold) Done(now time.Time, charged policy.Micro) {
	for _, l := range h.counters {
		l.done(now, h.amount, clamp(charged))
	}
	for _, end := range h.dones {
		end(now, clamp(charged))
	}
	h.counters, h.dones, h.amount = nil, nil, 0
}

// Count counts a charge of a deferred request, whose hold has ended.
func (b *Book) Count(now time.Time, budgets []policy.Budget, charged policy.Micro) {
	for i := range budgets {
		if b.shared != nil {
			b.shared.CountBudget(now, &budgets[i], clamp(charged))
			continue
		}
		l := b.use(&budgets[i])
		l.done(now, 0, clamp(charged))
	}
}

// Immediate reports whether Hold returns without reading the spending of others.
func (b *Book) Immediate(now time.Time, budgets []policy.Budget) bool {
	if b.shared != nil {
		return len(budgets) == 0
	}
	for i := range budgets {
		l := b.use(&budgets[i])
		stale := l.stale(now)
		l.release()
		if stale {
			return false
		}
	}
	return true
}

// use returns a budget's counters, which are not dropped until the caller ends the use with release or done.
func (b *Book) use(of *policy.Budget) *counters {
	k := budgetKey{of.Holder, of.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.counters.Get(k)
	if !ok {
		b.makeRoom()
		l = &counters{}
		b.counters.Add(k, l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	return l
}

// makeRoom drops unused counters. It checks only a few: if all are in use, MaxBudgets is exceeded for a while. b.mu is locked.
func (b *Book) makeRoom() {
	const looks = 8
	for i := 0; i < looks && b.counters.Len() >= MaxBudgets; i++ {
		k, l, _ := b.counters.GetOldest()
		if l.idle() {
			b.counters.Remove(k)
			continue
		}
		b.counters.Get(k)
	}
}

// maxSpendingAge is the maximum age of the spending of other processes.
const maxSpendingAge = time.Second

// refresh reads the spending of other processes if it is stale. The first requests of a budget wait for it; later, one request reads and the others use the
// last value.
func (b *Book) refresh(ctx context.Context, now time.Time, of *policy.Budget, l *counters) error {
	if b.spent == nil || !l.beginRefresh(now) {
		return nil
	}
	const timeout = 5 * time.Second
	_, err, _ := b.reading.Do(string(of.Holder)+":"+of.ID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return nil, b.read(ctx, now, of, l)
	})
	return err
}

func (b *Book) read(ctx context.Context, now time.Time, of *policy.Budget, l *counters) error {
	day, month := starts(now)
	for _, p := range [...]struct {
		limit policy.Micro
		since time.Time
		of    period
	}{{of.PerDay, day, daily}, {of.PerMonth, month, monthly}} {
		if p.limit <= 0 {
			continue
		}
		own := l.own(p.of)
		stored, err := b.spent(ctx, *of, p.since)
		if err != nil {
			return fmt.Errorf("spending of %s %s: %w", of.Holder, of.ID, err)
		}
		l.setOthers(p.of, own, stored)
	}
	l.endRefresh(now)
	return nil
}

// starts are the beginnings of the UTC day and month.
func starts(now time.Time) (day, month time.Time) {
	y, m, d := now.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}

// clamp limits an amount to a million dollars, so that sums cannot overflow.
func clamp(n policy.Micro) policy.Micro { return min(max(n, 0), 1e12) }
