package cache

import (
	"context"
	"crypto/rand"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Ticket is one request's use of the store: its key, the client's directives, its flight, and the record of its answer. It belongs to the
// goroutine that serves the request.
type Ticket struct {
	Control Control
	// Current reports whether a stored answer may still be served; false after its provider or model was removed from the configuration.
	// Nil means always. It is called with a lock held and must not use the store.
	Current func(*Served) bool
	// Market is the agent that sends the request, and its market regime.
	Market Market
	// Private is set for a request whose answer must not be written to a disk or a shared store.
	Private bool
	// Uncoalesced is set for a request whose answer may be stored, but not delivered to identical requests in flight: each of them makes its own call.
	Uncoalesced bool
	// Stored is called with an answer after it was stored. May be nil.
	Stored func(*Entry)

	began time.Time
	store *Store
	requestKey
	format       Format
	ttl          time.Duration
	sharedState  *State // nil until it is known
	sharedFailed bool   // the shared store did not answer

	outcome chan Outcome
	flight  *flight // guarded by the shard's lock; nil if in none

	rec   recorder
	state recording
}

// recording is the state of the record of an answer.
type recording uint8

const (
	notStarted recording = iota
	storable
	waitersOnly // delivered to coalesced requests but not stored: the model refused or paused
	closed      // delivered, or dropped because it failed or is too large
)

// Ticket starts a request's use of the store. An answer that it stores is fresh for ttl.
func (s *Store) Ticket(tenant policy.Account, k Key, format Format, c Control, ttl time.Duration) *Ticket {
	return &Ticket{Control: c, store: s, requestKey: requestKey{tenant, k}, format: format, ttl: ttl, began: s.now()}
}

// ID is that of the request's own entry, whether there is one or not.
func (t *Ticket) ID() string { return t.key.ID() }

// Fresh is the entry that may be served without calling a provider; nil if there is none. It waits for a shared store.
func (t *Ticket) Fresh(ctx context.Context) *Entry { return t.FreshAt(ctx, t.key) }

// FreshAt is the tenant's entry of another request that may be served; nil if there is none.
func (t *Ticket) FreshAt(ctx context.Context, k Key) *Entry {
	if !t.refresh(ctx, k) || t.Control.NoLookup {
		return nil
	}
	sh, now := t.store.shard(t.tenant), t.store.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := t.find(sh, k, now); e != nil && e.fresh(now, &t.Control) {
		return e
	}
	return nil
}

// find is the tenant's entry of a key, fresh or stale, if it may be served to the request; nil if there is none. The shard is locked.
func (t *Ticket) find(sh *shard, k Key, now time.Time) *Entry {
	e := sh.get(requestKey{t.tenant, k}, now)
	if e == nil || !e.Market.agrees(t.Market) || (t.Current != nil && !t.Current(&e.Served)) {
		return nil
	}
	return e
}

// StaleFallback is the entry that may be served after all providers failed; nil if there is none. It is fresh if the request skipped the
// lookup with no-cache.
func (t *Ticket) StaleFallback(ctx context.Context) *Entry {
	if !t.refresh(ctx, t.key) {
		return nil
	}
	sh, now := t.store.shard(t.tenant), t.store.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := t.find(sh, t.key, now); e != nil && e.staleUsable(now, &t.Control) {
		return e
	}
	return nil
}

// Hit counts a served entry; saved is the charge that it avoided.
func (t *Ticket) Hit(e *Entry, saved policy.Micro) {
	e.hits.Add(1)
	if s := t.store.shared; s != nil {
		s.Count(t.tenant, e.Key, Stats{Hits: 1, Saved: saved})
		return
	}
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	own := sh.tenant(t.store, t.tenant)
	own.Hits++
	own.Saved += saved
}

// Miss counts a request that calls a provider.
func (t *Ticket) Miss() {
	if s := t.store.shared; s != nil {
		s.Count(t.tenant, t.key, Stats{Misses: 1})
		return
	}
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.tenant(t.store, t.tenant).Misses++
}

// Age is the entry's age by the store's clock.
func (t *Ticket) Age(e *Entry) time.Duration { return e.Age(t.store.now()) }

// Records reports whether the answer is to be recorded.
func (t *Ticket) Records() bool { return !t.Control.NoStore }

// Record adds one event of the answer. A Start event discards what was recorded before, from an attempt that failed.
func (t *Ticket) Record(ev *chat.Event) {
	switch ev.Kind {
	case chat.Start:
		t.rec, t.state = recorder{b: t.rec.b[:0]}, storable
	case chat.Error:
		t.state = closed
	case chat.Refusal:
		t.rejectForStore()
	case chat.Stop:
		if ev.Reason == chat.StopRefusal || ev.Reason == chat.StopPause {
			t.rejectForStore()
		}
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.ToolStart, chat.ToolArgs, chat.BlockStop, chat.UsageInfo, chat.End,
		chat.Other, chat.Extra:
	}
	if t.state == notStarted || t.state == closed {
		return
	}
	t.rec.add(ev)
	if len(t.rec.b) > t.store.maxEntry() {
		t.rec, t.state = recorder{}, closed
		t.releaseWaiters()
	}
}

// rejectForStore keeps the answer for coalesced requests alone.
func (t *Ticket) rejectForStore() {
	if t.state == storable {
		t.state = waitersOnly
	}
}

// Finish stores the answer after its last event was recorded, and delivers it to the requests that wait for it.
func (t *Ticket) Finish(s Served) {
	if t.state != storable && t.state != waitersOnly {
		return
	}
	e := t.rec.entry(s)
	e.Key, e.Format, e.Created, e.Market = t.key, t.format, t.store.now(), t.Market
	e.Private = t.Private
	e.Expires = e.Created.Add(t.ttl)
	if t.state == storable && t.Records() && t.mayStore() {
		t.keep(e)
	}
	t.state = closed
	t.deliver(e)
}

// keep stores an answer in memory, and in a shared store unless it is private.
func (t *Ticket) keep(e *Entry) {
	shared := t.store.shared
	if shared != nil {
		_, _ = rand.Read(e.Tag[:]) // never fails (crypto/rand)
		e.removals = t.sharedState.Removals
	}
	if !t.store.put(t.tenant, e, t.began) {
		return
	}
	if t.Stored != nil {
		t.Stored(e)
	}
	if shared != nil && !e.Private {
		shared.Put(t.tenant, e, t.sharedState.Epoch)
	}
}
