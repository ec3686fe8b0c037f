package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"sync"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// Store has the counters that gateways share. Implementations are safe for concurrent use.
type Store interface {
	// Swap replaces a client's value by next if it is have (nil: none), atomically (compare-and-swap), else it returns the current value. It returns within the
	// store's timeout. The error is ErrUnavailable if nothing was sent; after any other error the value may have been replaced.
	Swap(ctx context.Context, client string, have, next []byte) (now []byte, swapped bool, err error)
}

// ErrUnavailable says that the store was not called, because it did not answer before.
var ErrUnavailable = errors.New("the store of limits is away")

// Decider is how a request was decided.
type Decider string

// The values of Decider.
const (
	DecidedShared Decider = "shared" // with the counters of all gateways
	DecidedAlone  Decider = "alone"  // by this gateway's share of the limits, because the store is unavailable
	DecidedNone   Decider = "nobody" // refused, because the store is unavailable
)

// shared is the part of a limiter that shares counters with other gateways.
type shared struct {
	store     Store
	self      string // this gateway's name, random for each start
	lifetime  time.Duration
	decided   func(Decider)
	accounts  *table[policy.Account, *slot]
	addresses *table[netip.Addr, *slot]
	budgets   *table[string, *slot] // by the name of the holder
	quotas    *table[quotaKey, *slot]

	running sync.WaitGroup
	closing chan struct{}
	once    sync.Once
}

func newShared(o *Options) *shared {
	s := &shared{store: o.Store, self: rand.Text(), lifetime: o.Lifetime, decided: o.Decided, closing: make(chan struct{})}
	if s.lifetime <= 0 {
		s.lifetime = 30 * time.Second
	}
	if s.decided == nil {
		s.decided = func(Decider) {}
	}
	s.accounts = newTable(o.Callers, func(a policy.Account) *slot { return &slot{shared: s, name: "account:" + string(a)} })
	s.addresses = newTable(o.Callers, func(a netip.Addr) *slot { return &slot{shared: s, name: "address:" + a.String()} })
	s.budgets = newTable(o.Callers, func(name string) *slot { return &slot{shared: s, name: "budget:" + name} })
	s.quotas = newTable(o.Callers, func(k quotaKey) *slot { return &slot{shared: s, name: k.String(), known: usage{seconds: k.seconds}} })
	s.running.Add(1)
	guard.Go(func() { defer s.running.Done(); s.renew() })
	return s
}

// slot returns the counters of a client.
func (s *shared) slot(account policy.Account, client netip.Addr) *slot {
	if account != "" {
		mu, found := s.accounts.lock(account)
		defer mu.Unlock()
		return found
	}
	mu, found := s.addresses.lock(network(client))
	defer mu.Unlock()
	return found
}

// run starts a goroutine that stores a client's counters.
func (s *shared) run(of *slot) {
	s.running.Add(1)
	guard.Go(func() { defer s.running.Done(); of.run() })
}

// renew stores this gateway's holds again before they expire, until the limiter is closed.
func (s *shared) renew() {
	every := s.lifetime / 3
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
		s.each(func(c *slot) { c.renew(time.Now(), every) })
	}
}

func (s *shared) each(f func(*slot)) {
	s.accounts.each(f)
	s.addresses.each(f)
	s.budgets.each(f)
	s.quotas.each(f)
}

// Close stores the counters, at most until ctx is done. It must be called after the last request. Only a limiter with a Store needs it.
func (l *Limiter) Close(ctx context.Context) error {
	s := l.shared
	if s == nil {
		return nil
	}
	s.once.Do(func() { close(s.closing) })
	s.each(func(c *slot) { c.renew(time.Now(), 0) })
	ended := make(chan struct{})
	guard.Go(func() { defer close(ended); s.running.Wait() })
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admitShared is Admit with a Store.
func (l *Limiter) admitShared(ctx context.Context, now time.Time, req *Request, lim *limits) (Grant, error) {
	s := l.shared.slot(req.Principal.Account, req.Client)
	var (
		g Grant
		f *fault.Fault
	)
	err := l.checkWithSpending(ctx, now, s, req, lim, func(now time.Time, u *usage, lim *limits) { g.Standing, f = u.admit(now, lim, req) })
	if err == nil {
		err = faultOrNil(f)
	}
	if err == nil && req.Class == Generation {
		g.slot, g.tokens, g.charge, g.storeNow = s, clamp(req.Tokens), clamp(req.Charge), lim.any()
	}
	return g, err
}

// holdShared is Hold with a Store.
func (l *Limiter) holdShared(ctx context.Context, now time.Time, req *Request, lim *limits, g *Grant) error {
	charge, tokens := clamp(req.Charge), clamp(req.Tokens)
	var f *fault.Fault
	err := l.checkWithSpending(ctx, now, g.slot, req, lim, func(now time.Time, u *usage, lim *limits) {
		now = u.advance(now)
		u.release(g.tokens, g.charge)
		if f = u.afford(now, lim, charge); f == nil {
			u.hold(tokens, charge)
		}
	})
	if err != nil { // the hold did not change
		return err
	}
	g.tokens, g.charge = tokens, charge
	if f != nil {
		g.tokens, g.charge = 0, 0
	}
	return faultOrNil(f)
}

// doneShared is Done with a Store.
func (g *Grant) doneShared(now time.Time, tokens int64, charged policy.Micro) Standing {
	g.Standing = g.slot.end(now, hold{Active: 1, Tokens: g.tokens, Charge: int64(g.charge)}, tokens, int64(charged), g.limits(), g.storeNow)
	g.slot = nil
	return g.Standing
}

// checkWithSpending runs a check of a request; see ready for the spending of others. A client without limits is checked in memory, and stored later.
func (l *Limiter) checkWithSpending(ctx context.Context, now time.Time, s *slot, req *Request, lim *limits, do func(time.Time, *usage, *limits)) error {
	share := l.rules.Load().Share
	if !lim.any() {
		s.countUnlimited(now, lim, do)
		return nil
	}
	if req.Class == Lookup || lim.spend == 0 || l.spent == nil {
		return s.check(&check{now: now, lim: *lim, share: share, do: do})
	}
	return s.checkWithSpending(&check{now: now, lim: *lim, share: share, do: do}, func() (sums, error) {
		day, err := l.spentToday(ctx, req.Principal.Account, now)
		if err != nil {
			return sums{}, fault.New(fault.Unavailable, "the spend of this key cannot be read at the moment", err)
		}
		return sums{day: day}, nil
	})
}

// sums are the charges in the current UTC day and month.
type sums struct{ day, month policy.Micro }

// checkWithSpending runs a check, after it has read the charges of others with read if they are stale.
func (s *slot) checkWithSpending(c *check, read func() (sums, error)) error {
	var day, month window
	stale := false
	err := s.check(&check{now: c.now, lim: c.lim, share: c.share, do: func(now time.Time, u *usage, lim *limits) {
		at := u.advance(now)
		if stale = u.stale(at); !stale {
			c.do(now, u, lim)
			return
		}
		day, month, u.othersReadAt = u.spent, u.month, at
	}})
	if err != nil || !stale {
		return err
	}
	stored, err := read()
	if err != nil {
		return err
	}
	return s.check(&check{now: c.now, lim: c.lim, share: c.share, do: func(now time.Time, u *usage, lim *limits) {
		u.advance(now)
		u.setOthers(day, int64(stored.day))
		if month.at == u.month.at {
			u.othersMonth = max(int64(stored.month)-month.n, 0)
		}
		c.do(now, u, lim)
	}})
}

// countUnlimited counts a request of a client without limits.
func (s *slot) countUnlimited(now time.Time, lim *limits, do func(time.Time, *usage, *limits)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, _ := s.total()
	c := check{now: now, do: do}
	c.run(&u, lim)
	s.own = s.own.plus(c.held)
}
