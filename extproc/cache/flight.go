package cache

import "slices"

// flight is one upstream call that several identical requests of a tenant share. The leader makes the call, the others wait.
type flight struct {
	leader  *Ticket
	waiting []*Ticket // in order of arrival
	failed  int       // number of leaders whose call failed
}

// maxLeaderFailures is how many leaders of a flight may fail before all waiting requests get the error, so that they do not each call a
// provider that is down.
const maxLeaderFailures = 2

// Outcome ends a wait: with an entry, with an error, or with neither, so that the request makes the call itself.
type Outcome struct {
	Entry *Entry
	Err   error
}

// Join looks the request up again, in memory only, and coalesces it with an identical one in flight. It returns a fresh entry if there is one by now. waits is
// true if another request makes the call: receive from Outcome. Otherwise this request must make the call. Call Release after Join.
func (t *Ticket) Join() (e *Entry, waits bool) {
	if t.Control.NoLookup || t.Control.NoStore || t.Uncoalesced {
		return nil, false
	}
	sh, now := t.store.shard(t.tenant), t.store.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := t.find(sh, t.key, now); !t.sharedFailed && e != nil && e.fresh(now, &t.Control) {
		return e, false
	}
	f, ok := sh.flights[t.requestKey]
	if !ok {
		t.flight = &flight{leader: t}
		sh.flights[t.requestKey] = t.flight
		return nil, false
	}
	t.flight, t.outcome = f, make(chan Outcome, 1)
	f.waiting = append(f.waiting, t)
	return nil, true
}

// Outcome delivers one value, if Join returned waits.
func (t *Ticket) Outcome() <-chan Outcome { return t.outcome }

// Abandon prevents that the answer is stored or shared, because it is from another model than the requested one. One of the waiting requests becomes the leader.
func (t *Ticket) Abandon() {
	t.Release(nil)
	t.Control.NoStore = true
}

// Release removes the request from its flight, if it is in one. If it is the leader and has delivered no answer, the request that has waited longest becomes
// the leader. err is the failure of the leader's call, nil if its client disconnected.
func (t *Ticket) Release(err error) {
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := t.flight
	if f == nil {
		return
	}
	t.flight = nil
	if f.leader != t {
		f.waiting = slices.DeleteFunc(f.waiting, func(o *Ticket) bool { return o == t })
		return
	}
	if err != nil {
		f.failed++
	}
	switch {
	case f.failed >= maxLeaderFailures:
		sh.endFlight(t.requestKey, Outcome{Err: err})
	case len(f.waiting) == 0:
		delete(sh.flights, t.requestKey)
	default:
		f.leader, f.waiting = f.waiting[0], f.waiting[1:]
		f.leader.outcome <- Outcome{}
	}
}

// deliver gives the leader's answer to the waiting requests and ends the flight.
func (t *Ticket) deliver(e *Entry) {
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t.flight == nil || t.flight.leader != t {
		return
	}
	t.flight = nil
	sh.endFlight(t.requestKey, Outcome{Entry: e})
}

// releaseWaiters ends a flight whose answer is too large to share. All waiting requests make their own calls concurrently: one after
// another, each would wait for an answer that is also too large.
func (t *Ticket) releaseWaiters() {
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t.flight == nil || t.flight.leader != t {
		return
	}
	t.flight = nil
	sh.endFlight(t.requestKey, Outcome{})
}

// endFlight removes a flight and sends its outcome. The shard is locked. No send blocks: channels have room for one outcome, and a request
// that was sent one is no longer in waiting.
func (sh *shard) endFlight(q requestKey, outcome Outcome) {
	f := sh.flights[q]
	delete(sh.flights, q)
	for _, o := range f.waiting {
		o.flight = nil
		o.outcome <- outcome
	}
}
