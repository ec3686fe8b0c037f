package cache

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Ticket is what one request has to do with the store: the key of its question, what its caller allows, its part in a call
// that several wait for, and the record of its answer. It belongs to the goroutine that serves the request.
type Ticket struct {
	Control Control
	// Current reports whether an answer may still be given as it was: its provider or model may have been taken away since. Nil: it
	// may. It is called under a lock, and must not use the store.
	Current func(*Served) bool

	store *Store
	question
	asked Form
	ttl   time.Duration

	turn   chan Turn
	flight *flight // under the shard's lock; nil without a part in any

	rec   recorder
	state recording
}

// recording is how far the record of an answer has come.
type recording uint8

const (
	unbegun recording = iota
	good
	notForStore // complete, but not for others than those who wait: the model refused, or says that it will go on
	given       // given up: too large, or failed
)

// Ask makes the ticket of a request. What is stored for it stays fresh for ttl.
func (s *Store) Ask(tenant policy.Account, k Key, asked Form, c Control, ttl time.Duration) *Ticket {
	return &Ticket{Control: c, store: s, question: question{tenant, k}, asked: asked, ttl: ttl}
}

// Fresh is the entry that may be served at once; nil without one.
func (t *Ticket) Fresh() *Entry {
	if t.Control.NoLookup {
		return nil
	}
	sh, now := t.store.shard(t.tenant), t.store.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := t.find(sh, now); e != nil && e.fresh(now, &t.Control) {
		return e
	}
	return nil
}

// find is the entry that answers the question, of any age that may still be of use. The shard is locked.
func (t *Ticket) find(sh *shard, now time.Time) *Entry {
	e := sh.get(t.question, now)
	if e == nil || (t.Current != nil && !t.Current(&e.Served)) {
		return nil
	}
	return e
}

// StandIn is the entry that may be served because no provider answered; nil without one. It may be fresh, when the caller did
// not want to see it.
func (t *Ticket) StandIn() *Entry {
	sh, now := t.store.shard(t.tenant), t.store.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := t.find(sh, now); e != nil && e.standsIn(now, &t.Control) {
		return e
	}
	return nil
}

// Hit counts that an entry was served in the place of an answer that would have cost saved.
func (t *Ticket) Hit(e *Entry, saved policy.Micro) {
	e.hits.Add(1)
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	own := sh.tenant(t.tenant)
	own.Hits++
	own.Saved += saved
}

// Miss counts that the answer had to be asked for.
func (t *Ticket) Miss() {
	sh := t.store.shard(t.tenant)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.tenant(t.tenant).Misses++
}

// Age is how old an entry is now.
func (t *Ticket) Age(e *Entry) time.Duration { return e.Age(t.store.now()) }

// Records reports whether the answer is of use to anybody else.
func (t *Ticket) Records() bool { return !t.Control.NoStore }

// Record notes one event of the answer. An answer begins with Start: what an attempt that failed said before is forgotten.
func (t *Ticket) Record(ev *chat.Event) {
	switch ev.Kind {
	case chat.Start:
		t.rec, t.state = recorder{b: t.rec.b[:0]}, good
	case chat.Error:
		t.state = given
	case chat.Refusal:
		t.spoil()
	case chat.Stop:
		if ev.Reason == chat.StopRefusal || ev.Reason == chat.StopPause {
			t.spoil()
		}
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.ToolStart, chat.ToolArgs, chat.BlockStop, chat.UsageInfo, chat.End,
		chat.Other, chat.Extra:
	}
	if t.state == unbegun || t.state == given {
		return
	}
	t.rec.add(ev)
	if len(t.rec.b) > t.store.maxEntry() {
		t.rec, t.state = recorder{}, given
		t.scatter()
	}
}

func (t *Ticket) spoil() {
	if t.state == good {
		t.state = notForStore
	}
}

// Finish stores the answer, whose last event was recorded, and gives it to those who wait for it.
func (t *Ticket) Finish(s Served) {
	if t.state != good && t.state != notForStore {
		return
	}
	e := t.rec.entry(s)
	e.Key, e.Asked, e.Created = t.key, t.asked, t.store.now()
	e.Expires = e.Created.Add(t.ttl)
	if t.state == good && t.Records() {
		t.store.put(t.tenant, e)
	}
	t.state = given
	t.land(e)
}
