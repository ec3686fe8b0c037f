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

// Store is where gateways count together. Safe for concurrent use.
type Store interface {
	// Swap replaces what is stored of a client by next, if it is have (nil: nothing), in one step, and returns what is stored if it is not. It returns within
	// the store's time limit. The error is ErrAway if nothing was sent; any other one leaves open whether it was replaced.
	Swap(ctx context.Context, client string, have, next []byte) (now []byte, swapped bool, err error)
}

// ErrAway is that of a store that was not asked, because it did not answer before.
var ErrAway = errors.New("the store of limits is away")

// Decider is who decided about a request.
type Decider string

// The deciders.
const (
	Together Decider = "shared" // with what all gateways counted
	Alone    Decider = "alone"  // by this gateway's share, because the store is away
	Nobody   Decider = "nobody" // the store is away: the request was refused
)

// shared is the part of a limiter that counts together with other gateways.
type shared struct {
	store     Store
	self      string // the name of this gateway among the others, new with each start
	lifetime  time.Duration
	decided   func(Decider)
	accounts  *table[policy.Account, *slot]
	addresses *table[netip.Addr, *slot]
	budgets   *table[string, *slot] // by the name of the holder

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
	s.running.Add(1)
	guard.Go(func() { defer s.running.Done(); s.renew() })
	return s
}

// slot finds a client.
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

// run has a client's counters stored.
func (s *shared) run(of *slot) {
	s.running.Add(1)
	guard.Go(func() { defer s.running.Done(); of.run() })
}

// renew keeps what this gateway holds from ending, until the limiter is closed.
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
}

// Close stores what was counted, at most until ctx is done. It is for after the last request. Only a limiter with a Store needs it.
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

// admitShared is Admit.
func (l *Limiter) admitShared(ctx context.Context, now time.Time, ask *Ask, lim *limits) (Grant, error) {
	s := l.shared.slot(ask.Principal.Account, ask.Client)
	var (
		g Grant
		f *fault.Fault
	)
	err := l.visit(ctx, now, s, ask, lim, func(now time.Time, u *usage, lim *limits) { g.Standing, f = u.admit(now, lim, ask) })
	if err == nil {
		err = faultOrNil(f)
	}
	if err == nil && ask.Class == Generation {
		g.slot, g.tokens, g.charge, g.stored = s, clamp(ask.Tokens), clamp(ask.Charge), lim.any()
	}
	return g, err
}

// holdShared is Hold.
func (l *Limiter) holdShared(ctx context.Context, now time.Time, ask *Ask, lim *limits, g *Grant) error {
	charge, tokens := clamp(ask.Charge), clamp(ask.Tokens)
	var f *fault.Fault
	err := l.visit(ctx, now, g.slot, ask, lim, func(now time.Time, u *usage, lim *limits) {
		now = u.advance(now)
		u.release(g.tokens, g.charge)
		if f = u.afford(now, lim, charge); f == nil {
			u.hold(tokens, charge)
		}
	})
	if err != nil { // nothing was changed
		return err
	}
	g.tokens, g.charge = tokens, charge
	if f != nil {
		g.tokens, g.charge = 0, 0
	}
	return faultOrNil(f)
}

// doneShared is Done.
func (g *Grant) doneShared(now time.Time, tokens int64, charged policy.Micro) Standing {
	g.Standing = g.slot.end(now, hold{Active: 1, Tokens: g.tokens, Charge: int64(g.charge)}, tokens, int64(charged), g.limits(), g.stored)
	g.slot = nil
	return g.Standing
}

// visit checks a request with what is known of its client's spending; see ready. A client without limits is checked here alone, and stored later.
func (l *Limiter) visit(ctx context.Context, now time.Time, s *slot, ask *Ask, lim *limits, do func(time.Time, *usage, *limits)) error {
	share := l.rules.Load().Share
	if !lim.any() {
		s.free(now, lim, do)
		return nil
	}
	if ask.Class == Lookup || lim.spend == 0 || l.spent == nil {
		return s.check(&check{now: now, lim: *lim, share: share, do: do})
	}
	return s.visit(&check{now: now, lim: *lim, share: share, do: do}, func() (sums, error) {
		day, err := l.spentToday(ctx, ask.Principal.Account, now)
		if err != nil {
			return sums{}, fault.New(fault.Unavailable, "the spend of this key cannot be read at the moment", err)
		}
		return sums{day: day}, nil
	})
}

// sums are what was charged in the current UTC day and month.
type sums struct{ day, month policy.Micro }

// visit makes a check with what was charged by others, which is read where that is old.
func (s *slot) visit(c *check, read func() (sums, error)) error {
	var day, month window
	stale := false
	err := s.check(&check{now: c.now, lim: c.lim, share: c.share, do: func(now time.Time, u *usage, lim *limits) {
		at := u.advance(now)
		if stale = u.stale(at); !stale {
			c.do(now, u, lim)
			return
		}
		day, month, u.asked = u.spent, u.month, at
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
			u.before = max(int64(stored.month)-month.n, 0)
		}
		c.do(now, u, lim)
	}})
}

// free counts a request of a client without limits.
func (s *slot) free(now time.Time, lim *limits, do func(time.Time, *usage, *limits)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, _ := s.total()
	c := check{now: now, do: do}
	c.run(&u, lim)
	s.own = s.own.plus(c.held)
}
