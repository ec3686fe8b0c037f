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

// slot is one client at a gateway that counts together with others. What gateways share is read and replaced as a whole, by comparison, so that the rules are
// those of a gateway alone. Requests that come while a replacement is under way go into the next one together. Safe for concurrent use.
type slot struct {
	shared *shared
	name   string

	mu      sync.Mutex
	raw     []byte          // what is stored, as far as is known; nil: nothing
	known   usage           // the same without holds, and never less than it was
	holds   map[string]hold // of the other gateways
	own     hold            // of this one: what its generations hold now
	shown   hold            // the same as it was last stored
	pending pending         // counted here, and not stored
	seq     int64           // of the last attempt to replace
	unsure  []attempt       // attempts of which it is not known whether they were stored; at most one was, since all compared with the same
	wrote   time.Time       // when own was last stored
	alone   *[2]bucket      // the rates while the store is away; nil: it is not
	queue   []*check
	dirty   bool // own or pending are to be stored
	running bool
}

// pending is what is added to the stored counters by the next replacement.
type pending struct {
	tokens, spent window
	month         window
	taken         [2]taken // requests that were let pass while the store was away
}

func (p *pending) empty() bool { return p.tokens.n == 0 && p.spent.n == 0 && p.month.n == 0 }

// attempt is one replacement.
type attempt struct {
	seq     int64
	pending pending
	own     hold     // of this gateway, after the checks
	counted [2]int64 // requests by Class
}

// check is one request that is checked against the limits. do may be called several times; the last call counts.
type check struct {
	now   time.Time
	lim   limits
	share int // Rules.Share
	do    func(now time.Time, u *usage, lim *limits)
	by    Decider
	err   error
	done  chan struct{}

	held    hold // what do added to the holds
	counted [2]int64
}

// busy implements counters. It must not be dropped while something is not stored.
func (s *slot) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.Active > 0 || s.running || s.dirty || !s.pending.empty() || len(s.unsure) > 0
}

// check runs a check and waits for it. The wait is bounded by the store's time limit.
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

// start has what waits be stored. Called with the lock.
func (s *slot) start() {
	if !s.running {
		s.running = true
		s.shared.run(s)
	}
}

// run stores what waits, until nothing does.
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

// maxTries bounds the attempts of one round. Others were faster each time.
const maxTries = 64

var errContended = errors.New("other gateways changed the counters each time")

// round replaces the stored counters by those after a batch of checks. When the store is away the checks are made here.
func (s *slot) round(batch []*check) {
	err := errContended
	for range maxTries {
		s.mu.Lock()
		u, others := s.total()
		for i, c := range batch {
			if i == 0 {
				u.merge(&s.pending.taken, u.reaches(c.now))
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
			if !errors.Is(swapErr, ErrAway) {
				s.unsure = append(s.unsure, a)
			}
			s.mu.Unlock()
			err = swapErr
			break
		}
		if swapped || s.has(now, a.seq) {
			s.stored(&u, next, &a, batch)
			if !swapped {
				s.read(now)
			}
			s.mu.Unlock()
			return
		}
		s.read(now)
		s.mu.Unlock()
	}
	s.away(batch, err)
}

// total is the counters with everything that is known, and what the other gateways hold. Called with the lock.
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

// attempt begins a replacement. Called with the lock, after the checks.
func (s *slot) attempt(batch []*check) attempt {
	s.seq++
	a := attempt{seq: s.seq, pending: s.pending}
	if len(batch) == 0 { // there was no time to add them at
		a.pending.taken = [2]taken{}
	}
	for _, c := range batch {
		for class, n := range c.counted {
			a.counted[class] += n
		}
	}
	return a
}

// encode writes the counters, with what this gateway holds after the checks. Called with the lock.
func (s *slot) encode(u *usage, own hold) []byte {
	now := time.Now()
	all := make(map[string]hold, len(s.holds)+1)
	maps.Copy(all, s.holds)
	own.Seq, own.Until = s.seq, now.Add(s.shared.lifetime).UnixMilli()
	all[s.shared.self] = own
	return encodeState(u, all, now)
}

// has reports whether an attempt is in what is stored: the store may be asked twice, where the first answer got lost, and others may have written in between.
func (s *slot) has(raw []byte, seq int64) bool {
	_, holds, err := decodeState(raw)
	return err == nil && holds[s.shared.self].Seq == seq
}

// stored notes that a replacement was stored. Called with the lock.
func (s *slot) stored(u *usage, next []byte, a *attempt, batch []*check) {
	s.raw, s.known, s.wrote, s.alone, s.unsure = next, *u, time.Now(), nil, nil
	s.known.active, s.known.heldTokens, s.known.heldCharge = 0, 0, 0
	s.shown = a.own
	s.subtract(&a.pending)
	for _, c := range batch {
		s.own = s.own.plus(c.held)
		c.by = Together
	}
}

// subtract takes away what is stored now.
func (s *slot) subtract(p *pending) {
	s.pending.tokens.less(p.tokens)
	s.pending.spent.less(p.spent)
	s.pending.month.less(p.month)
	for c := range p.taken {
		s.pending.taken[c].less(p.taken[c].left(s.pending.taken[c].at))
	}
}

// read takes over what is stored. Called with the lock.
func (s *slot) read(raw []byte) {
	s.raw = raw
	u, holds, err := decodeState(raw)
	if raw == nil || err != nil { // lost: what is known here is stored again
		s.unsure = nil
		return
	}
	mine := holds[s.shared.self]
	delete(holds, s.shared.self)
	s.seq = max(s.seq, mine.Seq)
	for _, a := range s.unsure {
		if a.seq == mine.Seq {
			s.subtract(&a.pending)
			s.uncount(&a)
		}
	}
	s.unsure = nil
	u.tokens, u.spent, u.month = newer(u.tokens, s.known.tokens), newer(u.spent, s.known.spent), newer(u.month, s.known.month)
	s.known, s.holds = u, holds
}

// uncount takes away the requests of an attempt that was stored after all: they were let pass here, too.
func (s *slot) uncount(a *attempt) {
	for c, n := range a.counted {
		if t := &s.pending.taken[c]; t.rpm > 0 {
			t.less(n * (minute / int64(t.rpm)))
		}
	}
}

// run makes a check, with what it changes noted.
func (c *check) run(u *usage, lim *limits) {
	before := *u
	c.do(c.now, u, lim)
	c.held = hold{Active: u.active - before.active, Tokens: u.heldTokens - before.heldTokens, Charge: u.heldCharge - before.heldCharge}
	for i := range u.rates {
		c.counted[i] = 0
		if u.rates[i].paid > before.rates[i].paid {
			c.counted[i] = 1
		}
	}
}

// away makes checks without the store: by this gateway's share of each limit, or not at all.
func (s *slot) away(batch []*check, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone == nil {
		rates := s.known.rates
		s.alone = &rates
	}
	for _, c := range batch {
		if c.share <= 0 {
			c.by, c.err = Nobody, unavailable(err)
			continue
		}
		c.by = Alone
		s.aloneOne(c)
	}
}

// unavailable refuses a request whose limits cannot be checked.
func unavailable(err error) *fault.Fault {
	f := fault.New(fault.Unavailable, "the limits of this caller cannot be checked at the moment", err)
	f.RetryAfter = retrySoon
	return f
}

// aloneOne makes one check by this gateway's share. Called with the lock.
func (s *slot) aloneOne(c *check) {
	now := s.known.advance(c.now)
	u := s.known
	u.rates = *s.alone
	lim, ok := c.lim.share(c.share, &u)
	if !ok {
		c.err = refuse(fault.RateLimited, retrySoon, "the store of limits is away, and a limit of this caller is smaller than the number of gateways")
		return
	}
	u.active, u.heldTokens, u.heldCharge = s.own.Active, s.own.Tokens, s.own.Charge
	u.add(&s.pending)
	before := u.rates
	c.run(&u, &lim)
	*s.alone = u.rates
	s.own = s.own.plus(c.held)
	s.known.others, s.known.before, s.known.asked, s.known.loaded = u.others, u.before, u.asked, u.loaded
	for class := range u.rates {
		if rpm := c.lim.rate(Class(class)); rpm > 0 && u.rates[class].paid > before[class].paid {
			s.pending.taken[class].add(now.UnixNano(), rpm)
		}
	}
}

// share is one part in n of the limits: of what is left of the hour's tokens and of the day's money as far as is known, and of the rates. ok is false if a part
// is nothing.
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
	if used := u.month.n + u.before; l.month > used {
		part.month = used + max((l.month-used)/int64(n), 1)
	}
	return part, true
}

// add counts what is not stored yet.
func (u *usage) add(p *pending) {
	u.tokens.add(p.tokens)
	u.spent.add(p.spent)
	u.month.add(p.month)
}

// reaches is the time at which a request counts, without a change.
func (u *usage) reaches(now time.Time) time.Time {
	later := *u
	return later.advance(now)
}

// merge counts the requests that passed while the store was away.
func (u *usage) merge(all *[2]taken, now time.Time) {
	at := now.UnixNano()
	for c, t := range all {
		if left := t.left(at); left > 0 {
			r := &u.rates[c]
			r.paid, r.rpm = min(max(r.paid, at)+left, at+minute), cmp.Or(r.rpm, t.rpm)
		}
	}
}

// taken are requests of one class that passed while the store was away.
type taken struct {
	used int64 // nanoseconds of the rate that they used up, as of the last one
	at   int64 // Unix nanoseconds of that
	rpm  int   // the rate
}

// left is how many nanoseconds of the rate are still used up.
func (t *taken) left(now int64) int64 { return max(t.used-max(now-t.at, 0), 0) }

// add counts a request, whatever the rate.
func (t *taken) add(now int64, rpm int) {
	*t = taken{used: min(t.left(now)+minute/int64(rpm), minute), at: now, rpm: rpm}
}

// less takes away so many nanoseconds, which are counted elsewhere.
func (t *taken) less(used int64) { t.used = max(t.used-used, 0) }

// count adds what a request used and was charged. soon has it stored at once.
func (s *slot) count(now time.Time, tokens, charged int64, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(now, tokens, charged, soon)
}

func (s *slot) add(now time.Time, tokens, charged int64, soon bool) {
	now = s.counts(now)
	s.pending.tokens.add(window{now.Unix() / 3600, tokens})
	s.pending.spent.add(window{now.Unix() / 86400, charged})
	s.pending.month.add(window{monthOf(now), charged})
	if soon {
		s.dirty = true
		s.start()
	}
}

// counts is the time at which what ends now counts. Called with the lock.
func (s *slot) counts(now time.Time) time.Time {
	u := s.known
	return u.advance(now)
}

// end replaces what a generation held by what it used, and returns how the client stands.
func (s *slot) end(now time.Time, held hold, tokens, charged int64, lim *limits, soon bool) Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = s.own.plus(hold{Active: -held.Active, Tokens: -held.Tokens, Charge: -held.Charge})
	s.add(now, tokens, charged, soon)
	return s.stands(now, lim)
}

// standing is how the client stands, as far as is known here.
func (s *slot) standing(now time.Time, lim *limits) Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stands(now, lim)
}

func (s *slot) stands(now time.Time, lim *limits) Standing {
	u, _ := s.total()
	now = u.advance(now)
	return u.standing(now, lim, Generation)
}

// renew has what this gateway holds stored again before it ends, and what could not be stored before.
func (s *slot) renew(now time.Time, every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending.empty() && s.own == s.shown && (s.own.Active == 0 || now.Sub(s.wrote) < every) && len(s.unsure) == 0 {
		return
	}
	s.dirty = true
	s.start()
}
