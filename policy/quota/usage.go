package quota

import (
	"fmt"
	"math"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

const (
	minute = int64(time.Minute)
	day    = 24 * time.Hour

	lookupFactor = 10          // rate of lookups relative to generations
	retryDelay   = time.Second // Retry-After while other requests of the client hold the rest of a limit
)

// limits are the limits of one request; zero means none.
type limits struct {
	rpm        int
	concurrent int
	tokens     int64 // per hour
	spend      int64 // in Micro, per UTC day
	month      int64 // in Micro, per UTC month; only for budgets
	overage    bool
}

// of returns a principal's limits: its own, else the default ones. Only accounts have a spend limit.
func (r *Rules) of(p *policy.Principal) limits {
	rpm := r.Default.RPM
	if p.Prepaid {
		rpm = r.PrepaidRPM
	}
	lim := limits{
		rpm:        firstSet(p.Limits.RPM, rpm),
		concurrent: max(r.MaxConcurrent, 0),
		tokens:     firstSet(p.Limits.TokensPerHour, r.Default.TokensPerHour),
		overage:    r.BillOverage,
	}
	if p.Account != "" {
		lim.spend = int64(firstSet(p.Limits.SpendPerDay, r.Default.SpendPerDay))
	}
	return lim
}

// ofRequest returns the limits of one request.
func (r *Rules) ofRequest(req *Request) limits {
	lim := r.of(&req.Principal)
	if req.Exempt {
		lim.spend = 0
	}
	return lim
}

// any reports whether there is a limit.
func (l *limits) any() bool {
	return l.rpm != 0 || l.concurrent != 0 || l.tokens != 0 || l.spend != 0 || l.month != 0
}

// rate is the number of requests of a class per minute.
func (l *limits) rate(c Class) int {
	if c == Lookup {
		return min(l.rpm, math.MaxInt32) * lookupFactor
	}
	return l.rpm
}

func firstSet[N ~int | ~int64](own, general N) N {
	if own != 0 {
		return max(own, 0)
	}
	return max(general, 0)
}

// usage is one client's counters. Methods only change the receiver; callers hold the lock.
type usage struct {
	rates        [2]bucket // by Class
	seconds      int64     // the period of tokens; 0 means an hour
	tokens       window    // of the hour, or of seconds
	spent        window    // of the UTC day, in this process
	others       int64     // spent by other processes on that day
	month        window    // spent in the UTC month; only with a Store
	othersMonth  int64     // spent by other processes in that month
	othersReadAt time.Time // when others was last read
	loaded       bool      // others was read at least once

	latest time.Time // the latest time of a request

	active     int   // generations in flight
	heldTokens int64 // held by them
	heldCharge int64
}

func newUsage[K comparable](K) *usage { return &usage{} }

// busy reports whether generations are in flight.
func (u *usage) busy() bool { return u.active > 0 }

// maxLag is how far a request's time may be behind the latest one, because it read the clock before waiting for the lock or the store. Farther
// behind means that the clock was set back.
const maxLag = 10 * time.Second

// advance is the time at which a request counts: its own, but not before that of a request which had the lock earlier. It also rolls the windows.
func (u *usage) advance(now time.Time) time.Time {
	lag := u.latest.Sub(now)
	if lag > 0 && lag <= maxLag {
		return u.latest
	}
	if lag > 0 && !u.latest.IsZero() {
		u.clockSetBack(now)
	}
	u.latest = now
	u.roll(now)
	return now
}

// clockSetBack limits the effect of a clock that was set back: rates are used up for a minute at most.
func (u *usage) clockSetBack(now time.Time) {
	for c := range u.rates {
		u.rates[c].usedUntil = min(u.rates[c].usedUntil, now.UnixNano()+minute)
	}
}

// roll starts a new hour or day.
func (u *usage) roll(now time.Time) {
	u.tokens.roll(now.Unix() / u.period())
	if u.spent.roll(now.Unix() / 86400) {
		u.others = 0
	}
	if u.month.roll(monthOf(now)) {
		u.othersMonth = 0
	}
}

// monthOf numbers the UTC months.
func monthOf(now time.Time) int64 {
	y, m, _ := now.UTC().Date()
	return int64(y)*12 + int64(m)
}

// stale reports whether the spending of others must be read again.
func (u *usage) stale(now time.Time) bool {
	age := now.Sub(u.othersReadAt)
	return !u.loaded || age < 0 || age >= maxSpendingAge
}

// setOthers sets the spending of others. known was read just before stored, so that a charge in between counts twice until the next read, rather
// than not at all. If the day has ended in between, nothing is changed.
func (u *usage) setOthers(known window, stored int64) {
	if known.at != u.spent.at {
		return
	}
	u.others = max(stored-known.n, 0)
	u.loaded = true
}

// admit counts a request or refuses it, and returns the client's standing.
func (u *usage) admit(now time.Time, lim *limits, req *Request) (Standing, *fault.Fault) {
	now = u.advance(now)
	var f *fault.Fault
	if req.Class == Lookup {
		f = u.lookup(now, lim)
	} else {
		f = u.generate(now, lim, req.MayBeFree, clamp(req.Tokens), clamp(req.Charge))
	}
	return u.standing(now, lim, req.Class), f
}

// lookup counts a lookup, or refuses it.
func (u *usage) lookup(now time.Time, lim *limits) *fault.Fault {
	return u.rate(now, Lookup, lim.rate(Lookup))
}

// generate counts a generation or refuses it. The rate is checked last, because that check counts the request.
func (u *usage) generate(now time.Time, lim *limits, mayBeFree bool, tokens int64, charge policy.Micro) *fault.Fault {
	if f := u.afford(now, lim, charge); f != nil && !mayBeFree {
		return f
	}
	if lim.concurrent > 0 && u.active >= lim.concurrent {
		return refuse(fault.RateLimited, retryDelay, "%d requests are under way for this caller, the most that may be at one time", lim.concurrent)
	}
	if f := u.rate(now, Generation, lim.rpm); f != nil {
		return f
	}
	u.active++
	u.hold(tokens, charge)
	return nil
}

// afford refuses a request beyond the hourly allowance or the daily limit.
func (u *usage) afford(now time.Time, lim *limits, charge policy.Micro) *fault.Fault {
	if f := u.allowance(now, lim); f != nil {
		return f
	}
	return u.spend(now, lim, int64(charge))
}

// hold adds a generation's tokens and highest possible charge to the held amounts.
func (u *usage) hold(tokens int64, charge policy.Micro) {
	u.heldTokens += tokens
	u.heldCharge += int64(charge)
}

// release reverts hold.
func (u *usage) release(tokens int64, charge policy.Micro) {
	u.heldTokens -= tokens
	u.heldCharge -= int64(charge)
}

// done replaces a generation's held amounts by the actual ones.
func (u *usage) done(heldTokens, tokens int64, heldCharge, charged policy.Micro) {
	u.active--
	u.release(heldTokens, heldCharge)
	u.tokens.n += tokens
	u.spent.n += int64(charged)
}

// rate counts a request against its class's rate.
func (u *usage) rate(now time.Time, c Class, rpm int) *fault.Fault {
	if rpm == 0 {
		return nil
	}
	next, wait := u.rates[c].take(now.UnixNano(), rpm)
	if wait > 0 {
		per := "requests"
		if rpm == 1 {
			per = "request"
		}
		return refuse(fault.RateLimited, time.Duration(wait), "the limit of %d %s per minute is reached: send it again in %d s", rpm, per, (time.Duration(wait)+time.Second-1)/time.Second)
	}
	u.rates[c] = next
	return nil
}

// allowance refuses a request once the hour's tokens are used up, including the input of requests in flight. Output is not known in advance: the
// request that crosses the limit completes.
func (u *usage) allowance(now time.Time, lim *limits) *fault.Fault {
	if lim.tokens == 0 || lim.overage || u.tokens.n+u.heldTokens < lim.tokens {
		return nil
	}
	return refuse(fault.AllowanceExhausted, nextHour(now).Sub(now), "the allowance of %d tokens per hour is used up", lim.tokens)
}

// spend refuses a request that could exceed the daily limit, including the highest possible charges of requests in flight. The cause is a *policy.OverBudget
// without an id.
func (u *usage) spend(now time.Time, lim *limits, charge int64) *fault.Fault {
	if lim.spend == 0 {
		return nil
	}
	left := max(lim.spend-u.spent.n-u.others, 0)
	if charge <= left-u.heldCharge && left > 0 {
		return nil
	}
	over := &policy.OverBudget{
		Holder: policy.OfKey, Period: "day", Limit: policy.Micro(lim.spend), Left: policy.Micro(left), MaxCost: policy.Micro(charge), Action: "refused",
		RetryAt: now.UTC().Truncate(day).Add(day),
	}
	words := fmt.Sprintf("this request may cost %s USD, but %s of the daily limit of %s USD are left: set a lower max_tokens, or wait for the next UTC day", over.MaxCost, over.Left, over.Limit)
	switch {
	case charge <= left && left > 0:
		over.RetryAt = now.UTC().Add(retryDelay)
		words = fmt.Sprintf("the requests under way hold what is left of the daily limit of %s USD", over.Limit)
	case left == 0:
		words = fmt.Sprintf("the daily limit of %s USD is used up: wait for the next UTC day", over.Limit)
	}
	f := fault.New(fault.BudgetExceeded, words, over)
	f.RetryAfter = over.RetryAt.Sub(now)
	return f
}

func (u *usage) standing(now time.Time, lim *limits, c Class) (s Standing) {
	if lim.tokens != 0 {
		s.TokensPerHour, s.RemainingTokens, s.Reset = lim.tokens, max(lim.tokens-u.tokens.n, 0), nextHour(now)
	}
	if s.RequestsPerMinute = lim.rate(c); s.RequestsPerMinute != 0 {
		s.used = time.Unix(0, u.rates[c].usedUntil)
	}
	return s
}

func nextHour(now time.Time) time.Time { return now.UTC().Truncate(time.Hour).Add(time.Hour) }

func refuse(k fault.Kind, after time.Duration, format string, args ...any) *fault.Fault {
	f := fault.Newf(k, format, args...)
	f.RetryAfter = after
	return f
}

// clamp limits a count to 10^12 tokens or a million dollars, so that sums cannot overflow.
func clamp[N ~int64](n N) N { return min(max(n, 0), 1e12) }

// window is a count within one period (hour, day or month), whose number is at.
type window struct{ at, n int64 }

// roll starts a new window if at is another period, and reports whether it replaced one. A request with a time in the previous period, which read the clock before
// others, counts in the current one. An earlier period means that the clock was set back.
func (w *window) roll(at int64) (from bool) {
	if at <= w.at && at >= w.at-1 {
		return false
	}
	from = w.at != 0
	*w = window{at: at}
	return from
}

// bucket is a GCRA rate limiter with a burst of one minute.
type bucket struct {
	usedUntil int64 // Unix nanoseconds at which the rate is completely unused again (the theoretical arrival time)
	rpm       int   // the rate at that time
}

// take counts a request at now, or returns the time to wait.
func (b bucket) take(now int64, rpm int) (next bucket, wait int64) {
	share := minute / int64(rpm)
	ahead := min(max(b.usedUntil-now, 0), minute) // more than a minute means that the clock was set back
	if b.rpm != rpm {                             // convert to the current rate
		ahead = int64(min(float64(ahead)*float64(b.rpm)/float64(rpm), float64(minute)))
	}
	if wait := ahead + share - minute; wait > 0 {
		return b, wait
	}
	return bucket{usedUntil: now + ahead + share, rpm: rpm}, 0
}
