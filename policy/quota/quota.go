// Package quota enforces limits on clients: request rate, hourly tokens, daily spend, concurrency. It counts in memory, per process: of several
// gateways with shared keys, each has its own rates, hourly tokens and concurrency. Only the daily spend is global, up to a second old, because it
// is read from the ledger. With a Store, gateways count together. It does not know HTTP, prices or the ledger.
package quota

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Class is which limits a request counts against.
type Class uint8

// The classes.
const (
	Generation Class = iota // every limit
	Lookup                  // models, balance, count_tokens: only a separate rate, ten times higher
)

// Rules are the configured limits. The zero value limits nothing.
type Rules struct {
	Default       policy.Limits // for principals without limits of their own; zero or less means no limit
	PrepaidRPM    int           // replaces Default.RPM for prepaid principals
	MaxConcurrent int           // concurrent generations per client; zero or less means no limit
	BillOverage   bool          // requests beyond the hourly allowance are served and billed instead of refused
	Share         int           // with a Store that is away, this gateway gives out one part in so many of each limit; 0: clients with limits are refused
}

// SpentSince reads the charges of an account since a time.
type SpentSince func(ctx context.Context, account policy.Account, since time.Time) (policy.Micro, error)

// BudgetSpent reads what a budget's holder was charged since the beginning of a UTC day, by all gateways.
type BudgetSpent func(ctx context.Context, of policy.Budget, since time.Time) (policy.Micro, error)

// Options of a limiter. The zero value works.
type Options struct {
	Rules      Rules
	Callers    int        // limit of stored accounts, and of anonymous addresses; zero means 65,536 of each
	SpentSince SpentSince // called at most once a second per account with a spend limit; nil if no other process charges

	Store    Store            // where gateways count together; nil: this process counts alone
	Decided  func(by Decider) // with a Store: is told of each request that was checked; nil for nothing
	Budgets  BudgetSpent      // with a Store: called at most once a second per budget; nil if no other gateway charges
	Lifetime time.Duration    // with a Store: how long what a gateway holds counts after it was last seen; zero means 30 seconds
}

// Ask is one request to be admitted.
type Ask struct {
	Principal policy.Principal
	Client    netip.Addr // identifies clients without an account
	Class     Class
	MayBeFree bool         // it may turn out to be free: tokens and spend are only checked by Hold
	Exempt    bool         // no limit of money refuses it; what it is charged counts
	Tokens    int64        // input tokens; 0 before its body is read
	Charge    policy.Micro // highest possible charge; 0 before its body is read
}

// Limiter admits requests. Clients are identified by account, anonymous ones by address (IPv6: by /64). Beyond Options.Callers the least recently
// seen clients without requests in flight are dropped. Safe for concurrent use.
type Limiter struct {
	rules     atomic.Pointer[Rules]
	spent     SpentSince
	budgets   BudgetSpent
	reading   singleflight.Group
	accounts  *table[policy.Account, *usage]
	addresses *table[netip.Addr, *usage]
	shared    *shared // nil: this process counts alone
}

// New returns a limiter. One with a Store must be closed.
func New(o Options) *Limiter {
	if o.Callers <= 0 {
		o.Callers = 1 << 16
	}
	l := &Limiter{spent: o.SpentSince, budgets: o.Budgets, accounts: newTable(o.Callers, newUsage[policy.Account]), addresses: newTable(o.Callers, newUsage[netip.Addr])}
	l.SetRules(o.Rules)
	if o.Store != nil {
		l.shared = newShared(&o)
	}
	return l
}

// SetRules changes the rules and keeps the counters.
func (l *Limiter) SetRules(r Rules) { l.rules.Store(&r) }

// Admit counts a request and lets it pass, or refuses it with a fault of kind RateLimited, AllowanceExhausted or
// BudgetExceeded whose RetryAfter says when to come again (round it up). A refused request counts nowhere; its grant says how
// its caller stands and needs no Done. The fault is Unavailable when the account's earlier spend cannot be read. Any other
// grant must be given back by Done.
func (l *Limiter) Admit(ctx context.Context, now time.Time, ask *Ask) (Grant, error) {
	lim := l.rules.Load().ofAsk(ask)
	if l.shared != nil {
		return l.admitShared(ctx, now, ask, &lim)
	}
	mu, u, err := l.ready(ctx, now, ask, &lim)
	if err != nil {
		return Grant{}, err
	}
	defer mu.Unlock()
	s, f := u.admit(now, &lim, ask)
	if f != nil || ask.Class == Lookup {
		return Grant{Standing: s}, faultOrNil(f)
	}
	return Grant{mu: mu, usage: u, tokens: clamp(ask.Tokens), charge: clamp(ask.Charge), Standing: s}, nil
}

// Hold updates the tokens and charge that an admitted request's grant holds: ask is that of its admission, now with Tokens and Charge. Rate and
// concurrency are not checked again. The error is as Admit's; the grant must be ended with Done in any case.
func (l *Limiter) Hold(ctx context.Context, now time.Time, ask *Ask, g *Grant) error {
	lim := l.rules.Load().ofAsk(ask)
	if g.slot != nil {
		return l.holdShared(ctx, now, ask, &lim, g)
	}
	if g.usage == nil {
		return nil
	}
	mu, u, err := l.ready(ctx, now, ask, &lim)
	if err != nil {
		return err
	}
	defer mu.Unlock()
	now = u.advance(now)
	u.release(g.tokens, g.charge)
	g.tokens, g.charge = 0, 0
	charge, tokens := clamp(ask.Charge), clamp(ask.Tokens)
	if f := u.afford(now, &lim, charge); f != nil {
		return f
	}
	u.hold(tokens, charge)
	g.tokens, g.charge = tokens, charge
	return nil
}

// faultOrNil converts a nil fault to a nil error.
func faultOrNil(f *fault.Fault) error {
	if f == nil {
		return nil
	}
	return f
}

// Standing is a client's current standing, without counting a request.
func (l *Limiter) Standing(now time.Time, p policy.Principal, client netip.Addr) Standing {
	lim := l.rules.Load().of(&p)
	if l.shared != nil {
		return l.shared.slot(p.Account, client).standing(now, &lim)
	}
	mu, u := l.lock(p.Account, client)
	defer mu.Unlock()
	now = u.advance(now)
	return u.standing(now, &lim, Generation)
}

// Grant is the admission of one request. For the zero value nothing was counted. Do not copy it in use. Not safe for concurrent use.
type Grant struct {
	Standing // as of the admission

	mu     *sync.Mutex
	usage  *usage
	slot   *slot // of a limiter with a Store, in place of usage
	stored bool  // with slot: what it used is stored at once
	tokens int64
	charge policy.Micro
}

// Done ends the grant with the actual tokens and charge, both zero if the request was not served, and returns the client's standing. Only the
// first call has an effect.
func (g *Grant) Done(now time.Time, tokens int64, charged policy.Micro) Standing {
	if g.slot != nil {
		return g.doneShared(now, clamp(tokens), clamp(charged))
	}
	if g.usage == nil {
		return g.Standing
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now = g.usage.advance(now)
	g.usage.done(g.tokens, clamp(tokens), g.charge, clamp(charged))
	g.Standing = g.usage.standing(now, g.limits(), Generation)
	g.usage = nil
	return g.Standing
}

// limits are those that a standing shows.
func (s *Standing) limits() *limits {
	return &limits{tokens: s.TokensPerHour, rpm: s.RequestsPerMinute}
}

// Count counts what a request used and was charged whose grant has ended: it was answered later. It takes no place among the client's generations. It returns
// the client's standing.
func (l *Limiter) Count(now time.Time, p *policy.Principal, client netip.Addr, tokens int64, charged policy.Micro) Standing {
	lim := l.rules.Load().of(p)
	if l.shared != nil {
		s := l.shared.slot(p.Account, client)
		s.count(now, clamp(tokens), int64(clamp(charged)), lim.any())
		return s.standing(now, &lim)
	}
	mu, u := l.lock(p.Account, client)
	defer mu.Unlock()
	now = u.advance(now)
	u.tokens.n += clamp(tokens)
	u.spent.n += int64(clamp(charged))
	return u.standing(now, &lim, Generation)
}

// Standing is the remainder of a client's hourly allowance and rate.
type Standing struct {
	TokensPerHour   int64 // the allowance; 0 means none, and the next fields have no meaning
	RemainingTokens int64 // at least 0
	Reset           time.Time

	RequestsPerMinute int       // the rate of the request's class; 0 means none
	used              time.Time // time until which the rate is used up
}

// Requests is the number of requests that the rate allows at a time, and the time until it is unused again.
func (s *Standing) Requests(now time.Time) (remaining int, reset time.Duration) {
	reset = min(max(s.used.Sub(now), 0), time.Minute)
	share := time.Minute / time.Duration(max(s.RequestsPerMinute, 1))
	if share == 0 { // more than one in a nanosecond
		return s.RequestsPerMinute, reset
	}
	return int((time.Minute - reset) / share), reset
}

// refreshTime is the greatest age of the spending of other processes.
const refreshTime = time.Second

// ready returns the client's usage, locked, including spending of other processes and from before the start. The first request of an account
// waits for that; later one request refreshes it, while others use the last value.
func (l *Limiter) ready(ctx context.Context, now time.Time, ask *Ask, lim *limits) (*sync.Mutex, *usage, error) {
	mu, u := l.lock(ask.Principal.Account, ask.Client)
	now = u.advance(now)
	if ask.Class == Lookup || lim.spend == 0 || l.spent == nil || !u.stale(now) {
		return mu, u, nil
	}
	known := u.spent
	u.asked = now
	mu.Unlock() // the store is read without the lock
	stored, err := l.spentToday(ctx, ask.Principal.Account, now)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "the spend of this key cannot be read at the moment", err)
	}
	mu, u = l.lock(ask.Principal.Account, ask.Client)
	u.advance(now)
	u.setOthers(known, int64(stored))
	return mu, u, nil
}

// Immediate reports whether Admit and Hold wait for nothing: they need not read what other processes spent, or count with other gateways.
func (l *Limiter) Immediate(now time.Time, ask *Ask) bool {
	lim := l.rules.Load().ofAsk(ask)
	if l.shared != nil {
		return !lim.any()
	}
	if ask.Class == Lookup || lim.spend == 0 || l.spent == nil {
		return true
	}
	mu, u := l.lock(ask.Principal.Account, ask.Client)
	defer mu.Unlock()
	return !u.stale(u.advance(now))
}

// spentToday shares one read between concurrent requests of an account; it does not end with the request that started it.
func (l *Limiter) spentToday(ctx context.Context, account policy.Account, now time.Time) (policy.Micro, error) {
	const patience = 5 * time.Second
	v, err, _ := l.reading.Do(string(account), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return l.spent(ctx, account, now.UTC().Truncate(24*time.Hour))
	})
	spent, _ := v.(policy.Micro)
	return spent, err
}

// lock finds a client's usage and locks it.
func (l *Limiter) lock(account policy.Account, client netip.Addr) (*sync.Mutex, *usage) {
	if account != "" {
		return l.accounts.lock(account)
	}
	return l.addresses.lock(network(client))
}

// network identifies an anonymous client: its IPv4 address or its IPv6 /64.
func network(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if !client.Is6() {
		return client
	}
	p, _ := client.Prefix(64) // fails for IPv4 only
	return p.Addr()
}
