package cache

import "slices"

// flight is one call of a provider that several requests of a tenant wait for. One of them leads: it makes the call.
type flight struct {
	leader  *Ticket
	waiting []*Ticket // in the order in which they came
	failed  int       // leaders whose call failed
}

// mostFailures is how many leaders of a flight may fail before the others are told the same: a provider that is down is not
// asked by each in turn.
const mostFailures = 2

// Turn is what becomes of a request that waited: an answer, an error, or, with neither, the lead.
type Turn struct {
	Entry *Entry
	Err   error
}

// Join takes part in the call that answers the ticket's question. Either an entry has come in the meantime, or others make the
// call and waits is true: Turn says what comes of it. Otherwise the call is the ticket's own to make. Whoever joined must Leave.
func (t *Ticket) Join() (e *Entry, waits bool) {
	if t.Control.NoLookup || t.Control.NoStore {
		return nil, false
	}
	sh, now := t.store.shard(t.tenant), t.store.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := t.find(sh, now); e != nil && e.fresh(now, &t.Control) {
		return e, false
	}
	f, ok := sh.flights[t.question]
	if !ok {
		t.flight = &flight{leader: t}
		sh.flights[t.question] = t.flight
		return nil, false
	}
	t.flight, t.turn = f, make(chan Turn, 1)
	f.waiting = append(f.waiting, t)
	return nil, true
}

// Turn delivers once what becomes of a ticket that waits.
func (t *Ticket) Turn() <-chan Turn { return t.turn }

// Leave ends the ticket's part in its call, if it has one still. A leader that leaves before it brought an answer hands the call on
// to the one who waits longest. err says that the call itself failed; nil that its caller lost interest. It may be called again.
func (t *Ticket) Leave(err error) {
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
	case f.failed >= mostFailures:
		sh.end(t.question, Turn{Err: err})
	case len(f.waiting) == 0:
		delete(sh.flights, t.question)
	default:
		f.leader, f.waiting = f.waiting[0], f.waiting[1:]
		f.leader.turn <- Turn{}
	}
}

// land brings an answer to those who wait for it.
func (t *Ticket) land(e *Entry) {
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t.flight == nil || t.flight.leader != t {
		return
	}
	t.flight = nil
	sh.end(t.question, Turn{Entry: e})
}

// scatter ends a call whose answer will be nobody else's: those who wait ask for themselves, all at once. In turn, each would
// wait for the answer of the one before, which is too large as well.
func (t *Ticket) scatter() {
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t.flight == nil || t.flight.leader != t {
		return
	}
	t.flight = nil
	sh.end(t.question, Turn{})
}

// end ends a flight. The shard is locked; no channel blocks, for each gets one turn, the leader's apart.
func (sh *shard) end(q question, turn Turn) {
	f := sh.flights[q]
	delete(sh.flights, q)
	for _, o := range f.waiting {
		o.flight = nil
		o.turn <- turn
	}
}
