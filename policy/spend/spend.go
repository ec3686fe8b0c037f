// Package spend holds requests to budgets that many of them share: a key's for the month, its project's and its owner's, for the day and the month (UTC). Each
// request must fit into all of them with its highest possible cost, and holds that until it is charged, so that concurrent requests cannot overspend
// together. It counts in memory, per process; what other processes spent is read from the ledger, up to a second old. Or gateways count together, in a store that
// is behind Together. It does not know HTTP, prices or the ledger.
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

// Spent reads what a budget's holder was charged since the beginning of a UTC day, by all processes.
type Spent func(ctx context.Context, of policy.Budget, since time.Time) (policy.Micro, error)

// Book counts what is spent and held of budgets. Safe for concurrent use.
type Book struct {
	spent   Spent
	reading singleflight.Group

	mu    sync.Mutex
	lines *simplelru.LRU[name, *line]

	together Together // nil: this process counts
}

// Together is what counts budgets for several gateways. Safe for concurrent use.
type Together interface {
	// HoldBudget holds so much of a budget until done, which is called once, replaces it by what was charged. The error is a *policy.OverBudget whose time to come
	// again is not set, or a fault of kind Unavailable.
	HoldBudget(ctx context.Context, now time.Time, of *policy.Budget, most policy.Micro) (done func(now time.Time, charged policy.Micro), err error)
	// CountBudget counts a charge of a request that holds nothing.
	CountBudget(now time.Time, of *policy.Budget, charged policy.Micro)
}

// NewTogether returns a book that others count in, too.
func NewTogether(t Together) *Book { return &Book{together: t} }

// Lines bounds the budgets that are counted; beyond it, those that were not used longest and hold nothing are read from the ledger again.
const Lines = 1 << 16

// New returns a book.
func New(spent Spent) *Book {
	lines, _ := simplelru.NewLRU[name, *line](2*Lines, nil) // fails for sizes below 1 only
	return &Book{spent: spent, lines: lines}
}

// name is whose budget it is.
type name struct {
	holder policy.Holder
	id     string
}

// Hold is what one request holds of its budgets. The zero value holds nothing. Not safe for concurrent use.
type Hold struct {
	lines  []*line
	amount policy.Micro
	ends   []func(time.Time, policy.Micro) // where gateways count together
}

// Hold holds so much of all budgets, in the place of what h held, or of none. The error is a fault of kind BudgetExceeded whose cause is a *policy.OverBudget, or
// Unavailable where earlier spending cannot be read. A request of no cost is refused, too, where a budget is used up.
func (b *Book) Hold(ctx context.Context, now time.Time, budgets []policy.Budget, most policy.Micro, h *Hold) error {
	h.Done(now, 0)
	most = clamp(most)
	if b.together != nil {
		return b.holdTogether(ctx, now, budgets, most, h)
	}
	for i := range budgets {
		l := b.line(&budgets[i])
		if err := b.refresh(ctx, now, &budgets[i], l); err != nil {
			l.leave()
			h.Done(now, 0)
			return fault.New(fault.Unavailable, "the budgets of this key cannot be read at the moment", err)
		}
		if r := l.hold(now, &budgets[i], most); r != nil {
			l.leave()
			h.amount = most
			h.Done(now, 0)
			return refused(now, r)
		}
		h.lines = append(h.lines, l)
	}
	h.amount = most
	return nil
}

func (b *Book) holdTogether(ctx context.Context, now time.Time, budgets []policy.Budget, most policy.Micro, h *Hold) error {
	for i := range budgets {
		done, err := b.together.HoldBudget(ctx, now, &budgets[i], most)
		if err != nil {
			h.Done(now, 0)
		}
		if o, ok := errors.AsType[*policy.OverBudget](err); ok {
			o.RetryAt = again(now, periodOf(o.Period), o.Left, most)
			return refused(now, o)
		}
		if err != nil {
			return err
		}
		h.ends = append(h.ends, done)
	}
	return nil
}

// Done replaces what is held by what was charged. Only the first call after Hold has an effect.
func (h *Hold) Done(now time.Time, charged policy.Micro) {
	for _, l := range h.lines {
		l.done(now, h.amount, clamp(charged))
	}
	for _, end := range h.ends {
		end(now, clamp(charged))
	}
	h.lines, h.ends, h.amount = nil, nil, 0
}

// Count counts a charge of a request that holds nothing any more: it was answered later.
func (b *Book) Count(now time.Time, budgets []policy.Budget, charged policy.Micro) {
	for i := range budgets {
		if b.together != nil {
			b.together.CountBudget(now, &budgets[i], clamp(charged))
			continue
		}
		l := b.line(&budgets[i])
		l.done(now, 0, clamp(charged))
	}
}

// Immediate reports whether Hold need not read what others spent.
func (b *Book) Immediate(now time.Time, budgets []policy.Budget) bool {
	if b.together != nil {
		return len(budgets) == 0
	}
	for i := range budgets {
		l := b.line(&budgets[i])
		stale := l.stale(now)
		l.leave()
		if stale {
			return false
		}
	}
	return true
}

// line is a budget's line, which is kept until it is left: by leave or done.
func (b *Book) line(of *policy.Budget) *line {
	k := name{of.Holder, of.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.lines.Get(k)
	if !ok {
		b.makeRoom()
		l = &line{}
		b.lines.Add(k, l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	return l
}

// makeRoom drops lines that nobody uses. It looks at a few: if all are used, there are more for a while. b.mu is locked.
func (b *Book) makeRoom() {
	const looks = 8
	for i := 0; i < looks && b.lines.Len() >= Lines; i++ {
		k, l, _ := b.lines.GetOldest()
		if l.idle() {
			b.lines.Remove(k)
			continue
		}
		b.lines.Get(k)
	}
}

// refreshTime is the greatest age of the spending of other processes.
const refreshTime = time.Second

// refresh reads what other processes spent, where that is old. The first requests of a line wait for it; later, one does.
func (b *Book) refresh(ctx context.Context, now time.Time, of *policy.Budget, l *line) error {
	if b.spent == nil || !l.take(now) {
		return nil
	}
	const patience = 5 * time.Second
	_, err, _ := b.reading.Do(string(of.Holder)+":"+of.ID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return nil, b.read(ctx, now, of, l)
	})
	return err
}

func (b *Book) read(ctx context.Context, now time.Time, of *policy.Budget, l *line) error {
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
	l.loaded(now)
	return nil
}

// starts are the beginnings of the UTC day and month.
func starts(now time.Time) (day, month time.Time) {
	y, m, d := now.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}

// clamp limits an amount to a million dollars, so that sums cannot overflow.
func clamp(n policy.Micro) policy.Micro { return min(max(n, 0), 1e12) }
