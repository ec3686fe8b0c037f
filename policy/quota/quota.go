// Package quota enforces limits on clients: request rate, hourly tokens, daily spend, concurrency, and quotas of what an expression counts. It counts in memory, per process: each of several
// gateways has its own rates, hourly tokens and concurrency; only the daily spend is global, up to a second old, because it
// is read from the ledger. With a Store, gateways share all counters. It does not know HTTP, prices or the ledger.
package quota

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// Class determines the limits that apply to a request.
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
	Quotas        []Quota       // must not be changed
	Share         int           // while the Store is unavailable, this gateway applies each limit divided by Share; 0: clients with limits are refused
}

// SpentSince reads the charges of an account since a time.
type SpentSince func(ctx context.Context, account policy.Account, since time.Time) (policy.Micro, error)

// BudgetSpent reads the charges of a budget's holder since the beginning of a UTC day, by all gateways.
type BudgetSpent func(ctx context.Context, of policy.Budget, since time.Time) (policy.Micro, error)

// Options of a limiter. The zero value works.
type Options struct {
	Rules      Rules
	Callers    int        // limit of stored accounts, and of anonymous addresses; zero means 65,536 of each
	SpentSince SpentSince // called at most once a second per account with a spend limit; nil if no other process charges

	Store    Store            // of shared counters; nil: this process counts alone
	Decided  func(by Decider) // with a Store: called for each request that was checked; may be nil
	Budgets  BudgetSpent      // with a Store: called at most once a second per budget; nil if no other gateway charges
	Lifetime time.Duration    // with a Store: how long a gateway's holds count after its last write; zero means 30 seconds
}

// Request is one request to be admitted.
type Request struct {
	Principal policy.Principal
	Client    netip.Addr // identifies clients without an account
	Class     Class
	MayBeFree bool         // the cost may be zero: tokens and spend are only checked by Hold
	Exempt    bool         // the spend limit does not refuse it; its charge counts
	Tokens    int64        // input tokens; 0 before the body is read
	Charge    policy.Micro // highest possible charge; 0 before the body is read
	Usage     []rule.Usage // for Hold with quotas: the highest possible usage at each candidate; nil if it uses nothing
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
	quotas    *table[quotaKey, *usage]
	shared    *shared // nil: this process counts alone
}

// New returns a limiter. One with a Store must be closed.
func New(o Options) *Limiter {
	if o.Callers <= 0 {
		o.Callers = 1 << 16
	}
	l := &Limiter{spent: o.SpentSince, budgets: o.Budgets, accounts: newTable(o.Callers, newUsage[policy.Account]), addresses: newTable(o.Callers, newUsage[netip.Addr])}
	l.quotas = newTable(o.Callers, func(k quotaKey) *usage { return &usage{seconds: k.seconds} })
	l.SetRules(o.Rules)
	if o.Store != nil {
		l.shared = newShared(&o)
	}
	return l
}

// SetRules changes the rules and keeps the counters.
func (l *Limiter) SetRules(r Rules) { l.rules.Store(&r) }

// Admit counts and admits a request, or refuses it with a fault of kind RateLimited, AllowanceExhausted or BudgetExceeded
// whose RetryAfter is the time to wait (round it up). A refused request is not counted; its grant has the client's Standing
// and needs no Done. The fault is Unavailable when the account's earlier spend cannot be read. Any other grant must be ended with Done.
func (l *Limiter) Admit(ctx context.Context, now time.Time, req *Request) (Grant, error) {
	lim := l.rules.Load().ofRequest(req)
	if l.shared != nil {
		return l.admitShared(ctx, now, req, &lim)
	}
	mu, u, err := l.ready(ctx, now, req, &lim)
	if err != nil {
		return Grant{}, err
	}
	defer mu.Unlock()
	s, f := u.admit(now, &lim, req)
	if f != nil || req.Class == Lookup {
		return Grant{Standing: s}, faultOrNil(f)
	}
	return Grant{mu: mu, usage: u, tokens: clamp(req.Tokens), charge: clamp(req.Charge), Standing: s}, nil
}

// Hold updates the tokens, the charge and the quotas that an admitted request's grant holds: req is that of the admission, now with Tokens, Charge and Usage.
// Rate and concurrency are not checked again. The error is as Admit's, or of kind RateLimited with an *Exceeded as its cause; the grant must be ended with Done
// in any case.
func (l *Limiter) Hold(ctx context.Context, now time.Time, req *Request, g *Grant) error {
	if g.usage == nil && g.slot == nil {
		return nil
	}
	if err := l.holdTokens(ctx, now, req, g); err != nil {
		return err
	}
	return l.holdQuotas(now, req, g)
}

// holdTokens is Hold without the quotas.
func (l *Limiter) holdTokens(ctx context.Context, now time.Time, req *Request, g *Grant) error {
	lim := l.rules.Load().ofRequest(req)
	if g.slot != nil {
		return l.holdShared(ctx, now, req, &lim, g)
	}
	mu, u, err := l.ready(ctx, now, req, &lim)
	if err != nil {
		return err
	}
	defer mu.Unlock()
	now = u.advance(now)
	u.release(g.tokens, g.charge)
	g.tokens, g.charge = 0, 0
	charge, tokens := clamp(req.Charge), clamp(req.Tokens)
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

// Grant is the admission of one request. The zero value counts nothing. It must not be copied in use. Not safe for concurrent use.
type Grant struct {
	Standing // at the admission

	mu       *sync.Mutex
	usage    *usage
	slot     *slot // replaces usage in a limiter with a Store
	storeNow bool  // with slot: usage is stored immediately
	tokens   int64
	charge   policy.Micro

	limiter *Limiter // with quotas
	quotas  []quotaHold
}

// Done ends the grant with the actual tokens and charge, both zero if the request was not served, and returns the client's standing. Only the
// first call has an effect.
func (g *Grant) Done(now time.Time, tokens int64, charged policy.Micro) Standing {
	g.releaseQuotas(now)
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

// limits returns the limits of a standing.
func (s *Standing) limits() *limits {
	return &limits{tokens: s.TokensPerHour, rpm: s.RequestsPerMinute}
}

// Count counts the tokens and the charge of a deferred request, whose grant has ended, and returns the client's standing. It does not count against the
// concurrency limit.
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

// Standing is the unused rest of a client's hourly allowance and rate.
type Standing struct {
	TokensPerHour   int64 // the allowance; 0 means none, and the next fields have no meaning
	RemainingTokens int64 // at least 0
	Reset           time.Time

	RequestsPerMinute int       // the rate of the request's class; 0 means none
	used              time.Time // when the rate is completely unused again
}

// Requests is the number of requests that the rate allows now, and the time until it is completely unused again.
func (s *Standing) Requests(now time.Time) (remaining int, reset time.Duration) {
	reset = min(max(s.used.Sub(now), 0), time.Minute)
	share := time.Minute / time.Duration(max(s.RequestsPerMinute, 1))
	if share == 0 { // more than one per nanosecond
		return s.RequestsPerMinute, reset
	}
	return int((time.Minute - reset) / share), reset
}

// maxSpendingAge is the maximum age of the spending of other processes.
const maxSpendingAge = time.Second

// ready returns the client's usage, locked, including spending by other processes and before the start. The first requests of an account
// wait until it is read; later one request refreshes it, while others use the last value.
func (l *Limiter) ready(ctx context.Context, now time.Time, req *Request, lim *limits) (*sync.Mutex, *usage, error) {
	mu, u := l.lock(req.Principal.Account, req.Client)
	now = u.advance(now)
	if req.Class == Lookup || lim.spend == 0 || l.spent == nil || !u.stale(now) {
		return mu, u, nil
	}
	known := u.spent
	u.othersReadAt = now
	mu.Unlock() // the store is read without the lock
	stored, err := l.spentToday(ctx, req.Principal.Account, now)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "the spend of this key cannot be read at the moment", err)
	}
	mu, u = l.lock(req.Principal.Account, req.Client)
	u.advance(now)
	u.setOthers(known, int64(stored))
	return mu, u, nil
}

// Immediate reports whether Admit and Hold do no I/O: they need not read the spending of other processes, or use the Store.
func (l *Limiter) Immediate(now time.Time, req *Request) bool {
	rules := l.rules.Load()
	lim := rules.ofRequest(req)
	if l.shared != nil {
		return !lim.any() && (req.Class == Lookup || len(rules.Quotas) == 0)
	}
	if req.Class == Lookup || lim.spend == 0 || l.spent == nil {
		return true
	}
	mu, u := l.lock(req.Principal.Account, req.Client)
	defer mu.Unlock()
	return !u.stale(u.advance(now))
}

// spentToday reads the spending of the day. Concurrent requests of an account share one read, which is not cancelled with the request that started it.
func (l *Limiter) spentToday(ctx context.Context, account policy.Account, now time.Time) (policy.Micro, error) {
	const timeout = 5 * time.Second
	v, err, _ := l.reading.Do(string(account), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return l.spent(ctx, account, now.UTC().Truncate(24*time.Hour))
	})
	spent, _ := v.(policy.Micro)
	return spent, err
}

// lock returns a client's usage, locked.
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
