// Package quota decides whether a caller may send one more request now: rate, hourly tokens, daily spend, concurrency.
// It counts in memory, for one process: where several gateways share their keys, each has the rates, the hourly tokens and the
// concurrency for itself. The daily spend alone is that of all of them, as of a second ago, since it is read where charges are booked.
// It does not know HTTP, prices or where that is.
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

// Class says which limits a request counts against.
type Class uint8

// The classes.
const (
	Generation Class = iota // every limit
	Lookup                  // models, balance, count_tokens: only a rate of their own, ten times higher
)

// Rules are the configured limits. The zero value limits nothing.
type Rules struct {
	Default       policy.Limits // of principals that say nothing themselves; zero or less means no limit
	PrepaidRPM    int           // in place of Default.RPM for prepaid principals
	MaxConcurrent int           // generations at one time per caller; zero or less means no limit
	BillOverage   bool          // tokens beyond the hourly allowance are served and billed, not refused
}

// SpentSince reads what an account was charged since a moment.
type SpentSince func(ctx context.Context, account policy.Account, since time.Time) (policy.Micro, error)

// Options are what a limiter is made of. The zero value works.
type Options struct {
	Rules      Rules
	Callers    int        // accounts, and anonymous addresses, remembered; zero means 65,536 of each
	SpentSince SpentSince // asked once a second at most per account with a spend limit; nil means that nobody else charges
}

// Ask is one request that wants to be admitted.
type Ask struct {
	Principal policy.Principal
	Client    netip.Addr // counts for callers without an account
	Class     Class
	MayBeFree bool         // it may turn out to cost its caller nothing: what may be used and spent is checked by Hold alone
	Tokens    int64        // input tokens, which it uses for sure if it is served; 0 while its body is not read
	Charge    policy.Micro // the most that it may be charged; 0 while its body is not read
}

// Limiter admits requests. Callers are told apart by account, anonymous ones by address (IPv6: by /64). Beyond
// Options.Callers the ones seen longest ago, and without a request under way, are forgotten. Safe for concurrent use.
type Limiter struct {
	rules     atomic.Pointer[Rules]
	spent     SpentSince
	reading   singleflight.Group
	accounts  *table[policy.Account]
	addresses *table[netip.Addr]
}

// New makes a limiter.
func New(o Options) *Limiter {
	if o.Callers <= 0 {
		o.Callers = 1 << 16
	}
	l := &Limiter{spent: o.SpentSince, accounts: newTable[policy.Account](o.Callers), addresses: newTable[netip.Addr](o.Callers)}
	l.SetRules(o.Rules)
	return l
}

// SetRules puts other rules in force. What was counted stays counted.
func (l *Limiter) SetRules(r Rules) { l.rules.Store(&r) }

// Admit counts a request and lets it pass, or refuses it with a fault of kind RateLimited, AllowanceExhausted or
// BudgetExceeded whose RetryAfter says when to come again (round it up). A refused request counts nowhere; its grant says how
// its caller stands and needs no Done. The fault is Unavailable when the account's earlier spend cannot be read. Any other
// grant must be given back by Done.
func (l *Limiter) Admit(ctx context.Context, now time.Time, ask *Ask) (Grant, error) {
	lim := l.rules.Load().of(&ask.Principal)
	charge, tokens := clamp(ask.Charge), clamp(ask.Tokens)

	mu, u, err := l.ready(ctx, now, ask, &lim)
	if err != nil {
		return Grant{}, err
	}
	defer mu.Unlock()
	now = u.advance(now)
	if ask.Class == Lookup {
		f := u.lookup(now, &lim)
		return Grant{Standing: u.standing(now, &lim, Lookup)}, faultOrNil(f)
	}
	if f := u.generate(now, &lim, ask.MayBeFree, tokens, charge); f != nil {
		return Grant{Standing: u.standing(now, &lim, Generation)}, f
	}
	return Grant{mu: mu, usage: u, tokens: tokens, charge: charge, Standing: u.standing(now, &lim, Generation)}, nil
}

// Hold sets aside what a request that was admitted uses and may be charged, in the place of what its grant holds: ask is the one
// that it was admitted by, now with its Tokens and Charge. The rate and the concurrency are not looked at again. The error is as
// Admit's; the grant must be given back all the same.
func (l *Limiter) Hold(ctx context.Context, now time.Time, ask *Ask, g *Grant) error {
	if g.usage == nil {
		return nil
	}
	lim := l.rules.Load().of(&ask.Principal)
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

// faultOrNil keeps a nil fault a nil error.
func faultOrNil(f *fault.Fault) error {
	if f == nil {
		return nil
	}
	return f
}

// Standing is how a caller stands now, without counting a request.
func (l *Limiter) Standing(now time.Time, p policy.Principal, client netip.Addr) Standing {
	lim := l.rules.Load().of(&p)
	mu, u := l.lock(p.Account, client)
	defer mu.Unlock()
	now = u.advance(now)
	return u.standing(now, &lim, Generation)
}

// Grant is the leave for one request. The zero value is a grant that nothing was counted for. Do not copy it once it is
// in use. Not safe for concurrent use.
type Grant struct {
	Standing // as of the admission

	mu     *sync.Mutex
	usage  *usage
	tokens int64
	charge policy.Micro
}

// Done gives the grant back with what the request really used and was charged, both zero if it was not served, and
// returns the caller's standing after it. Only the first call counts.
func (g *Grant) Done(now time.Time, tokens int64, charged policy.Micro) Standing {
	if g.usage == nil {
		return g.Standing
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now = g.usage.advance(now)
	g.usage.done(g.tokens, clamp(tokens), g.charge, clamp(charged))
	g.Standing = g.usage.standing(now, &limits{tokens: g.TokensPerHour, rpm: g.RequestsPerMinute}, Generation)
	g.usage = nil
	return g.Standing
}

// Standing is what is left of a caller's hourly allowance and of its rate.
type Standing struct {
	TokensPerHour   int64 // the allowance; 0 means none, and what follows of it says nothing
	RemainingTokens int64 // what is left of it, at least 0
	Reset           time.Time

	RequestsPerMinute int       // the rate of the request's class; 0 means none
	used              time.Time // up to when the requests so far have used the rate up
}

// Requests is how many more the rate lets pass at a moment, and how long it takes until it is unused again.
func (s *Standing) Requests(now time.Time) (remaining int, reset time.Duration) {
	reset = min(max(s.used.Sub(now), 0), time.Minute)
	share := time.Minute / time.Duration(max(s.RequestsPerMinute, 1))
	if share == 0 { // more than one in a nanosecond
		return s.RequestsPerMinute, reset
	}
	return int((time.Minute - reset) / share), reset
}

// refreshTime is how old what others spent may be.
const refreshTime = time.Second

// ready returns the caller's usage, locked, and with what others spent: other processes, and this one before it was
// started. The first request of an account waits for that; later one of them reads it anew, while the rest goes by what is known.
func (l *Limiter) ready(ctx context.Context, now time.Time, ask *Ask, lim *limits) (*sync.Mutex, *usage, error) {
	mu, u := l.lock(ask.Principal.Account, ask.Client)
	now = u.advance(now)
	if ask.Class == Lookup || lim.spend == 0 || l.spent == nil || !u.stale(now) {
		return mu, u, nil
	}
	known := u.spent
	u.asked = now
	mu.Unlock() // the store is asked without a lock
	stored, err := l.spentToday(ctx, ask.Principal.Account, now)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "the spend of this key cannot be read at the moment", err)
	}
	mu, u = l.lock(ask.Principal.Account, ask.Client)
	u.advance(now)
	u.learn(known, int64(stored))
	return mu, u, nil
}

// spentToday lets concurrent requests of an account share one read, which outlives the request that began it.
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

// lock finds a caller's usage and holds its lock.
func (l *Limiter) lock(account policy.Account, client netip.Addr) (*sync.Mutex, *usage) {
	if account != "" {
		return l.accounts.lock(account)
	}
	return l.addresses.lock(network(client))
}

// network is what an anonymous caller is known by: a household has one IPv4 address, but 2^64 of IPv6.
func network(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if p, err := client.Prefix(64); err == nil && client.Is6() {
		return p.Addr()
	}
	return client
}
