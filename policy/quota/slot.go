package quota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"bardo.money/gateway/internal/fault"
)

// slot is one client's counters in a limiter with a Store. The shared value is replaced as a whole by compare-and-swap, so that the rules are the same as
// without a Store. Requests that arrive during a swap are checked together in the next one. Safe for concurrent use.
type slot struct {
	shared *shared
	name   string

	mu           sync.Mutex
	raw          []byte          // the stored value, as far as known; nil: none
	known        usage           // its counters, without holds; they never decrease
	holds        map[string]hold // those of the other gateways
	own          hold            // the current holds of this gateway's generations
	lastStored   hold            // own as last stored
	pending      pending         // counted here and not stored yet
	seq          int64           // number of the last attempt to swap
	inDoubt      []attempt       // attempts that may have been stored; at most one was, because all compared with the same value
	storedAt     time.Time       // when own was last stored
	offlineRates *[2]bucket      // the rates while the store is unavailable; nil while it is available
	queue        []*check
	dirty        bool // own or pending must be stored
	running      bool
}

// pending has the amounts that the next swap adds to the stored counters.
type pending struct {
	tokens, spent window
	month         window
	offline       [2]offlineUse // requests that were admitted while the store was unavailable
}

func (p *pending) empty() bool { return p.tokens.n == 0 && p.spent.n == 0 && p.month.n == 0 }

// attempt is one swap.
type attempt struct {
	seq     int64
	pending pending
	own     hold     // of this gateway, after the checks
	counted [2]int64 // requests by Class
}

// check is one check of a request. do may be called several times; the last call counts.
type check struct {
	now   time.Time
	lim   limits
	share int // Rules.Share
	do    func(now time.Time, u *usage, lim *limits)
	by    Decider
	err   error
	done  chan struct{}

	held    hold // added to the holds by do
	counted [2]int64
}

// busy implements counters: a slot must not be dropped while something is not stored.
func (s *slot) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.Active > 0 || s.running || s.dirty || !s.pending.empty() || len(s.inDoubt) > 0
}

// check runs a check and waits for it. The wait is bounded by the store's timeout.
func (s *slot) check(c *check) error {
	c.done = make(chan struct{})
	s.mu.Lock()
	s.queue = append(s.queue, c)
	s.start()
	s.mu.Unlock()
	<-c.done
	s.shared.decided(c.by)
	return c.err
}

// start starts run, unless it is running. s.mu is locked.
func (s *slot) start() {
	if !s.running {
		s.running = true
		s.shared.run(s)
	}
}

// run stores counters until no check waits and nothing is dirty.
func (s *slot) run() {
	for {
		s.mu.Lock()
		batch := s.queue
		s.queue = nil
		if len(batch) == 0 && !s.dirty {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.dirty = false
		s.mu.Unlock()
		s.round(batch)
		for _, c := range batch {
			close(c.done)
		}
	}
}

// maxSwapTries is the maximum number of attempts in a round, if other gateways change the value each time.
const maxSwapTries = 64

var errContended = errors.New("other gateways changed the counters each time")

// round runs a batch of checks and stores the counters. If the store is unavailable, the checks are run with this gateway's share of the limits.
func (s *slot) round(batch []*check) {
	err := errContended
	for range maxSwapTries {
		s.mu.Lock()
		u, others := s.total()
		for i, c := range batch {
			if i == 0 {
				u.merge(&s.pending.offline, u.effectiveTime(c.now))
			}
			c.run(&u, &c.lim)
		}
		a := s.attempt(batch)
		a.own = hold{Active: u.active - others.Active, Tokens: u.heldTokens - others.Tokens, Charge: u.heldCharge - others.Charge}
		have, next := s.raw, s.encode(&u, a.own)
		s.mu.Unlock()

		now, swapped, swapErr := s.shared.store.Swap(context.Background(), s.name, have, next)
		s.mu.Lock()
		if swapErr != nil {
			if !errors.Is(swapErr, ErrUnavailable) {
				s.inDoubt = append(s.inDoubt, a)
			}
			s.mu.Unlock()
			err = swapErr
			break
		}
		if swapped || s.isStored(now, a.seq) {
			s.markStored(&u, next, &a, batch)
			if !swapped {
				s.load(now)
			}
			s.mu.Unlock()
			return
		}
		s.load(now)
		s.mu.Unlock()
	}
	s.checkOffline(batch, err)
}

// total is the sum of all known counters, and the holds of the other gateways. s.mu is locked.
func (s *slot) total() (u usage, others hold) {
	u = s.known
	now := time.Now().UnixMilli()
	for _, h := range s.holds {
		if h.Until > now {
			others = others.plus(h)
		}
	}
	all := others.plus(s.own)
	u.active, u.heldTokens, u.heldCharge = all.Active, all.Tokens, all.Charge
	u.add(&s.pending)
	return u, others
}

// attempt begins a swap, after the checks. s.mu is locked.
func (s *slot) attempt(batch []*check) attempt {
	s.seq++
	a := attempt{seq: s.seq, pending: s.pending}
	if len(batch) == 0 { // offline requests are only merged together with a check
		a.pending.offline = [2]offlineUse{}
	}
	for _, c := range batch {
		for class, n := range c.counted {
			a.counted[class] += n
		}
	}
	return a
}

// encode encodes the counters, with this gateway's holds after the checks. s.mu is locked.
func (s *slot) encode(u *usage, own hold) []byte {
	now := time.Now()
	all := make(map[string]hold, len(s.holds)+1)
	maps.Copy(all, s.holds)
	own.Seq, own.Until = s.seq, now.Add(s.shared.lifetime).UnixMilli()
	all[s.shared.self] = own
	return encodeState(u, all, now)
}

// isStored reports whether a stored value includes an attempt: a request to the store may be repeated after its answer was lost, and others may have written
// in between.
func (s *slot) isStored(raw []byte, seq int64) bool {
	_, holds, err := decodeState(raw)
	return err == nil && holds[s.shared.self].Seq == seq
}

// markStored records that an attempt was stored. s.mu is locked.
func (s *slot) markStored(u *usage, next []byte, a *attempt, batch []*check) {
	s.raw, s.known, s.storedAt, s.offlineRates, s.inDoubt = next, *u, time.Now(), nil, nil
	s.known.active, s.known.heldTokens, s.known.heldCharge = 0, 0, 0
	s.lastStored = a.own
	s.subtract(&a.pending)
	for _, c := range batch {
		s.own = s.own.plus(c.held)
		c.by = DecidedShared
	}
}

// subtract subtracts amounts that are stored now from the pending ones.
func (s *slot) subtract(p *pending) {
	s.pending.tokens.subtract(p.tokens)
	s.pending.spent.subtract(p.spent)
	s.pending.month.subtract(p.month)
	for c := range p.offline {
		s.pending.offline[c].subtract(p.offline[c].left(s.pending.offline[c].at))
	}
}

// load takes over a stored value. s.mu is locked.
func (s *slot) load(raw []byte) {
	s.raw = raw
	u, holds, err := decodeState(raw)
	if raw == nil || err != nil { // lost: the known counters are stored again
		s.inDoubt = nil
		return
	}
	mine := holds[s.shared.self]
	delete(holds, s.shared.self)
	s.seq = max(s.seq, mine.Seq)
	for _, a := range s.inDoubt {
		if a.seq == mine.Seq {
			s.subtract(&a.pending)
			s.uncount(&a)
		}
	}
	s.inDoubt = nil
	u.tokens, u.spent, u.month = later(u.tokens, s.known.tokens), later(u.spent, s.known.spent), later(u.month, s.known.month)
	u.seconds = s.known.seconds
	s.known, s.holds = u, holds
}

// uncount subtracts the requests of an attempt that was stored after all, because they were also counted as offline.
func (s *slot) uncount(a *attempt) {
	for c, n := range a.counted {
		if t := &s.pending.offline[c]; t.rpm > 0 {
			t.subtract(n * (minute / int64(t.rpm)))
		}
	}
}

// run runs a check, and records its changes.
func (c *check) run(u *usage, lim *limits) {
	before := *u
	c.do(c.now, u, lim)
	c.held = hold{Active: u.active - before.active, Tokens: u.heldTokens - before.heldTokens, Charge: u.heldCharge - before.heldCharge}
	for i := range u.rates {
		c.counted[i] = 0
		if u.rates[i].usedUntil > before.rates[i].usedUntil {
			c.counted[i] = 1
		}
	}
}

// checkOffline runs checks without the store, by this gateway's share of each limit, or refuses them if there is no share.
func (s *slot) checkOffline(batch []*check, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offlineRates == nil {
		rates := s.known.rates
		s.offlineRates = &rates
	}
	for _, c := range batch {
		if c.share <= 0 {
			c.by, c.err = DecidedNone, unavailable(err)
			continue
		}
		c.by = DecidedAlone
		s.checkAlone(c)
	}
}

// unavailable is the fault of a request whose limits cannot be checked.
func unavailable(err error) *fault.Fault {
	f := fault.New(fault.Unavailable, "the limits of this caller cannot be checked at the moment", err)
	f.RetryAfter = retryDelay
	return f
}

// checkAlone runs one check by this gateway's share of the limits. s.mu is locked.
func (s *slot) checkAlone(c *check) {
	now := s.known.advance(c.now)
	u := s.known
	u.rates = *s.offlineRates
	lim, ok := c.lim.share(c.share, &u)
	if !ok {
		c.err = refuse(fault.RateLimited, retryDelay, "the store of limits is away, and a limit of this caller is smaller than the number of gateways")
		return
	}
	u.active, u.heldTokens, u.heldCharge = s.own.Active, s.own.Tokens, s.own.Charge
	u.add(&s.pending)
	before := u.rates
	c.run(&u, &lim)
	*s.offlineRates = u.rates
	s.own = s.own.plus(c.held)
	s.known.others, s.known.othersMonth, s.known.othersReadAt, s.known.loaded = u.others, u.othersMonth, u.othersReadAt, u.loaded
	for class := range u.rates {
		if rpm := c.lim.rate(Class(class)); rpm > 0 && u.rates[class].usedUntil > before[class].usedUntil {
			s.pending.offline[class].add(now.UnixNano(), rpm)
		}
	}
}

// share is the n-th part of the limits: of the rest of the hour's tokens and of the spend limits, as far as known, and of the rates. ok is false if a part
// is zero.
func (l *limits) share(n int, u *usage) (part limits, ok bool) {
	part = *l
	part.rpm, part.concurrent = l.rpm/n, l.concurrent/n
	if part.rpm == 0 && l.rpm > 0 || part.concurrent == 0 && l.concurrent > 0 {
		return part, false
	}
	if left := l.tokens - u.tokens.n; left > 0 {
		part.tokens = u.tokens.n + max(left/int64(n), 1) // 0 would be no limit
	}
	if used := u.spent.n + u.others; l.spend > used {
		part.spend = used + max((l.spend-used)/int64(n), 1)
	}
	if used := u.month.n + u.othersMonth; l.month > used {
		part.month = used + max((l.month-used)/int64(n), 1)
	}
	return part, true
}

// add adds pending amounts.
func (u *usage) add(p *pending) {
	u.tokens.add(p.tokens)
	u.spent.add(p.spent)
	u.month.add(p.month)
}

// effectiveTime is advance without a change.
func (u *usage) effectiveTime(now time.Time) time.Time {
	later := *u
	return later.advance(now)
}

// merge counts the requests that were admitted while the store was unavailable.
func (u *usage) merge(all *[2]offlineUse, now time.Time) {
	at := now.UnixNano()
	for c, t := range all {
		if left := t.left(at); left > 0 {
			r := &u.rates[c]
			r.usedUntil, r.rpm = min(max(r.usedUntil, at)+left, at+minute), cmp.Or(r.rpm, t.rpm)
		}
	}
}

// offlineUse is the requests of one class that were admitted while the store was unavailable.
type offlineUse struct {
	used int64 // nanoseconds of the rate that were used up at the last request
	at   int64 // time of that request in Unix nanoseconds
	rpm  int   // the rate
}

// left is how many nanoseconds of the rate are still used up.
func (t *offlineUse) left(now int64) int64 { return max(t.used-max(now-t.at, 0), 0) }

// add counts a request, even beyond the rate.
func (t *offlineUse) add(now int64, rpm int) {
	*t = offlineUse{used: min(t.left(now)+minute/int64(rpm), minute), at: now, rpm: rpm}
}

// subtract subtracts nanoseconds that are counted elsewhere.
func (t *offlineUse) subtract(used int64) { t.used = max(t.used-used, 0) }

// count adds a request's tokens and charge. With soon they are stored immediately.
func (s *slot) count(now time.Time, tokens, charged int64, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(now, tokens, charged, soon)
}

func (s *slot) add(now time.Time, tokens, charged int64, soon bool) {
	now = s.effectiveTime(now)
	s.pending.tokens.add(window{now.Unix() / s.known.period(), tokens})
	s.pending.spent.add(window{now.Unix() / 86400, charged})
	s.pending.month.add(window{monthOf(now), charged})
	if soon {
		s.dirty = true
		s.start()
	}
}

// effectiveTime is the time at which a request that ends now counts. s.mu is locked.
func (s *slot) effectiveTime(now time.Time) time.Time {
	u := s.known
	return u.advance(now)
}

// end replaces a generation's hold by its usage, and returns the client's standing.
func (s *slot) end(now time.Time, held hold, tokens, charged int64, lim *limits, soon bool) Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = s.own.plus(hold{Active: -held.Active, Tokens: -held.Tokens, Charge: -held.Charge})
	s.add(now, tokens, charged, soon)
	return s.standingLocked(now, lim)
}

// standing is the client's standing, as far as known.
func (s *slot) standing(now time.Time, lim *limits) Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standingLocked(now, lim)
}

func (s *slot) standingLocked(now time.Time, lim *limits) Standing {
	u, _ := s.total()
	now = u.advance(now)
	return u.standing(now, lim, Generation)
}

// renew stores this gateway's holds again before they expire, and counters that could not be stored before.
func (s *slot) renew(now time.Time, every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending.empty() && s.own == s.lastStored && (s.own.Active == 0 || now.Sub(s.storedAt) < every) && len(s.inDoubt) == 0 {
		return
	}
	s.dirty = true
	s.start()
}
