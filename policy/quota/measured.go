package quota

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// Quotas limit what an expression counts in a period. Each has counters of its own, which are those of a client in another unit and with another period:
// usage.tokens has what was counted, in millionths, and usage.heldTokens what requests in flight may count at most.

// Scope is whose requests a quota counts together.
type Scope string

// The scopes.
const (
	PerKey     Scope = "key"     // those of an account, or of an address without one
	PerProject Scope = "project" // those of a project's keys; keys without one are not limited
	PerOwner   Scope = "owner"   // those of an owner's projects; the same
	PerAddress Scope = "address" // IPv6: those of a /64
	PerAll     Scope = "all"     // all
)

// Quota is a limit of what an expression counts in a period.
type Quota struct {
	Name   string
	Per    Scope
	Window time.Duration // in whole seconds; periods are aligned to Unix time 0
	Limit  int64         // in millionths
	Cost   *rule.Measure
	When   *rule.Filter // nil: the quota applies to every request
}

// Millionths returns a number of an expression in the unit of limits, between 0 and 10^18.
func Millionths(n float64) int64 { return int64(min(max(math.Round(n*1e6), 0), maxAmount)) }

// Bounds of amounts in millionths, so that sums cannot overflow.
const (
	maxAmount = 1e18 // of one request
	maxSum    = 4e18 // of a period
)

// Exceeded is the cause of a refusal by a quota.
type Exceeded struct{ Quota string }

// Error implements error.
func (e *Exceeded) Error() string { return "quota " + e.Quota }

// quotaKey finds the counters of a quota.
type quotaKey struct {
	name    string
	seconds int64 // the period: counters do not outlive its change
	holder  string
}

// String is the name of the counters in a Store.
func (k quotaKey) String() string {
	return "quota:" + k.name + ":" + strconv.FormatInt(k.seconds, 10) + ":" + k.holder
}

// key finds the counters for a caller; ok is false if the quota does not limit it.
func (q *Quota) key(p *policy.Principal, client netip.Addr) (k quotaKey, ok bool) {
	k = quotaKey{name: q.Name, seconds: int64(q.Window / time.Second)}
	address := network(client)
	switch {
	case q.Per == PerKey && p.Account != "":
		k.holder, ok = "account:"+string(p.Account), true
	case q.Per == PerKey, q.Per == PerAddress:
		k.holder, ok = "address:"+address.String(), address.IsValid()
	case q.Per == PerProject:
		k.holder, ok = "project:"+p.Project, p.Project != ""
	case q.Per == PerOwner:
		k.holder, ok = "owner:"+p.Owner, p.Owner != ""
	case q.Per == PerAll:
		k.holder, ok = "all", true
	}
	return k, ok
}

// amount returns what a usage counts, in millionths.
func (q *Quota) amount(u *rule.Usage) (int64, error) {
	if q.When != nil {
		if applies, err := q.When.Holds(u); err != nil || !applies {
			return 0, err
		}
	}
	n, err := q.Cost.Of(u)
	return Millionths(n), err
}

// most returns the most that a request may count, of which only the highest numbers are known: it may use less, any part of its input may be cached or written
// to a cache, and any part of its output be reasoning. The highest value of an expression without products of these is where each part is all or nothing.
func (q *Quota) most(estimates []rule.Usage) (most int64, err error) {
	if !q.uses("model") && !q.uses("provider") { // the same at each candidate
		estimates = estimates[:1]
	}
	evaluated := false
	for u := range q.allOrNothing(estimates) {
		input, output := u.Input, u.Output
		for _, cache := range [...]struct{ read, written int64 }{{0, 0}, {input, 0}, {0, input}} {
			for _, thoughts := range [...]int64{0, output} {
				if cache.read > 0 && !q.uses("cached_tokens") || cache.written > 0 && !q.uses("cache_write_tokens") || thoughts > 0 && !q.uses("reasoning_tokens") {
					continue // the same as without
				}
				u.Cached, u.CacheWrite, u.Reasoning = cache.read, cache.written, thoughts
				n, failed := q.amount(&u)
				if failed != nil {
					err = failed
					continue
				}
				most, evaluated = max(most, n), true
			}
		}
	}
	if evaluated {
		return most, nil
	}
	return 0, err
}

// allOrNothing yields each estimate with its input, its output and its cost as estimated, or none: an expression may count more for less.
func (q *Quota) allOrNothing(estimates []rule.Usage) iter.Seq[rule.Usage] {
	total := q.uses("total_tokens")
	input := total || q.uses("input_tokens")
	output := total || q.uses("output_tokens")
	cost := q.uses("cost_usd")
	return func(yield func(rule.Usage) bool) {
		for i := range estimates {
			for without := range 8 {
				u := estimates[i]
				if without&1 != 0 && !input || without&2 != 0 && !output || without&4 != 0 && !cost {
					continue // the same as with it
				}
				if without&1 != 0 {
					u.Input = 0
				}
				if without&2 != 0 {
					u.Output = 0
				}
				if without&4 != 0 {
					u.CostUSD = 0
				}
				if !yield(u) {
					return
				}
			}
		}
	}
}

// uses reports whether an expression of the quota names a variable.
func (q *Quota) uses(variable string) bool { return q.Cost.Uses(variable) || q.When.Uses(variable) }

// limits are those of the counters.
func (q *Quota) limits() limits { return limits{tokens: q.Limit} }

// quotaHold is what a request holds of a quota.
type quotaHold struct {
	*Quota

	key    quotaKey
	amount int64
	mu     *sync.Mutex // with usage
	usage  *usage
	slot   *slot // replaces usage in a limiter with a Store
}

// holds reports whether the request counts as in flight.
func (h *quotaHold) holds() bool { return h.usage != nil || h.slot != nil }

// HasQuotas reports whether requests need estimates of their usage.
func (l *Limiter) HasQuotas() bool { return len(l.rules.Load().Quotas) > 0 }

// holdQuotas replaces what a grant holds of the quotas by the most that its request may count. If one of them refuses it, the others that were not changed yet
// keep what is held.
func (l *Limiter) holdQuotas(now time.Time, req *Request, g *Grant) error {
	rules := l.rules.Load()
	if len(rules.Quotas) == 0 && len(g.quotas) == 0 {
		return nil
	}
	before := g.quotas
	g.limiter, g.quotas = l, nil
	var err error
	for i := range rules.Quotas {
		q := &rules.Quotas[i]
		k, ok := q.key(&req.Principal, req.Client)
		if !ok || len(req.Usage) == 0 {
			continue
		}
		h := quotaHold{Quota: q, key: k}
		if j := slices.IndexFunc(before, func(b quotaHold) bool { return b.Quota == q && b.key == k }); j >= 0 {
			h = before[j]
			before = slices.Delete(before, j, j+1)
		}
		if err == nil {
			err = l.holdQuota(now, rules.Share, &h, req)
		}
		g.quotas = append(g.quotas, h)
	}
	for i := range before {
		before[i].end(now, 0)
	}
	return err
}

// holdQuota holds the most that a request may count. After an error h is as before.
func (l *Limiter) holdQuota(now time.Time, share int, h *quotaHold, req *Request) error {
	amount, err := h.most(req.Usage)
	if err != nil {
		return fault.New(fault.Internal, fmt.Sprintf("the quota %s cannot be evaluated for this request", h.Name), err)
	}
	if amount == h.amount {
		return nil
	}
	var (
		f    *fault.Fault
		held int64
	)
	hold := func(now time.Time, u *usage, lim *limits) {
		if held, f = u.holdAmount(now, lim, h, amount, req.Exempt); f == nil && !h.holds() {
			u.active++
		}
	}
	lim := h.limits()
	if l.shared != nil {
		s := l.shared.ofQuota(h.key)
		if err := s.check(&check{now: now, lim: lim, share: share, do: hold}); err != nil {
			return err
		}
		if f == nil {
			h.slot, h.amount = s, held
		}
		return faultOrNil(f)
	}
	mu, u := l.quotas.lock(h.key)
	defer mu.Unlock()
	if hold(now, u, &lim); f == nil {
		h.mu, h.usage, h.amount = mu, u, held
	}
	return faultOrNil(f)
}

// ofQuota finds the counters of a quota.
func (s *shared) ofQuota(k quotaKey) *slot {
	mu, found := s.quotas.lock(k)
	defer mu.Unlock()
	return found
}

// holdAmount replaces what a request holds by an amount, or refuses it. An exempt request is never refused, and holds only what is left.
func (u *usage) holdAmount(now time.Time, lim *limits, h *quotaHold, amount int64, exempt bool) (held int64, f *fault.Fault) {
	now = u.advance(now)
	left := max(lim.tokens-u.tokens.n, 0)
	free := max(left-(u.heldTokens-h.amount), 0)
	if exempt {
		amount = min(amount, free)
	}
	if amount > free {
		return 0, h.refuse(now, left, amount)
	}
	u.heldTokens += amount - h.amount
	return amount, nil
}

// refuse is the refusal of a request that may count an amount.
func (q *Quota) refuse(now time.Time, left, amount int64) *fault.Fault {
	wait := q.Window - now.Sub(time.Unix(0, 0))%q.Window
	of := fmt.Sprintf("%s of %s per %s", q.Name, decimal(q.Limit), periodText(q.Window))
	var text string
	switch {
	case amount <= left:
		wait, text = retryDelay, "the requests under way hold what is left of the quota "+of
	case left == 0:
		text = fmt.Sprintf("the quota %s is used up", of)
	case amount > q.Limit:
		text = fmt.Sprintf("this request may count %s, more than the quota %s allows: set a lower max_tokens", decimal(amount), of)
	default:
		text = fmt.Sprintf("this request may count %s, but %s are left of the quota %s: set a lower max_tokens, or send it later", decimal(amount), decimal(left), of)
	}
	const patience = time.Minute // clients' libraries do not wait longer by themselves
	f := fault.New(fault.RateLimited, text, &Exceeded{q.Name})
	f.RetryAfter, f.Final, f.Plain = wait, amount > q.Limit || wait > patience, true
	return f
}

// decimal writes an amount without trailing zeros.
func decimal(millionths int64) string {
	return strconv.FormatFloat(float64(millionths)/1e6, 'f', -1, 64)
}

// periodText writes a period as the configuration does: 1m, not 1m0s.
func periodText(d time.Duration) string {
	for _, unit := range [...]struct {
		is   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}} {
		if d%unit.is == 0 {
			return strconv.FormatInt(int64(d/unit.is), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// end replaces the hold by what the request counts.
func (h *quotaHold) end(now time.Time, amount int64) {
	switch {
	case h.slot != nil:
		h.slot.end(now, hold{Active: 1, Tokens: h.amount}, amount, 0, &limits{}, true)
	case h.usage != nil:
		h.mu.Lock()
		defer h.mu.Unlock()
		u := h.usage
		u.advance(now)
		u.active--
		u.heldTokens -= h.amount
		u.tokens.add(window{u.tokens.at, amount})
	}
}

// Measure replaces what the grant holds of the quotas by what its request used. It is called before Done, which otherwise releases it. If an expression has no
// value for the usage, what was held counts.
func (g *Grant) Measure(now time.Time, used *rule.Usage) {
	for i := range g.quotas {
		h := &g.quotas[i]
		amount, err := h.Quota.amount(used)
		if err != nil {
			amount = h.amount
		}
		if !h.holds() {
			g.limiter.count(now, h.key, amount)
			continue
		}
		h.end(now, amount)
	}
	g.quotas = nil
}

// HasQuotas reports whether the grant counts against quotas, so that Measure has an effect.
func (g *Grant) HasQuotas() bool { return len(g.quotas) > 0 }

// releaseQuotas ends the holds of a request that used nothing.
func (g *Grant) releaseQuotas(now time.Time) {
	for i := range g.quotas {
		g.quotas[i].end(now, 0)
	}
	g.quotas = nil
}

// CountQuotas counts what a request without a grant used beyond what was counted when its grant ended.
func (l *Limiter) CountQuotas(now time.Time, p *policy.Principal, used, counted *rule.Usage) {
	rules := l.rules.Load()
	for i := range rules.Quotas {
		q := &rules.Quotas[i]
		k, ok := q.key(p, netip.Addr{})
		if !ok {
			continue
		}
		amount, err := q.amount(used)
		before, _ := q.amount(counted)
		if err == nil {
			l.count(now, k, amount-before)
		}
	}
}

// count adds an amount to the counters of a quota.
func (l *Limiter) count(now time.Time, k quotaKey, amount int64) {
	if amount <= 0 {
		return
	}
	if l.shared != nil {
		l.shared.ofQuota(k).count(now, amount, 0, true)
		return
	}
	mu, u := l.quotas.lock(k)
	defer mu.Unlock()
	u.advance(now)
	u.tokens.add(window{u.tokens.at, amount})
}

// period is the number of seconds in the period of u.tokens.
func (u *usage) period() int64 { return cmp.Or(u.seconds, 3600) }
