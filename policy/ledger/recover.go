package ledger

import (
	"slices"
	"time"
)

// During an outage the store is retried with exponential backoff. An outage soon after another one continues with its pause, so that a disk that
// is almost full does not make the state flap.
const (
	pauseLeast = 100 * time.Millisecond
	pauseMost  = 2 * time.Second
	calm       = 10 * time.Second
)

func (w *writer) firstPause() time.Duration {
	if w.pause == 0 || time.Since(w.lastRecovery) > calm {
		w.pause = pauseLeast
	}
	return w.pause
}

func (w *writer) nextPause() time.Duration {
	w.pause = min(2*w.pause, pauseMost)
	return w.pause
}

// recover tries to end what fails, and reports whether nothing does. Only the holder of the book may call it.
func (w *writer) recover() bool {
	l := w.backlog
	if l == nil {
		return true
	}
	healthy := w.recoverStore()
	if l.failure.Load() == nil {
		return healthy
	}
	if err := l.secure(); err != nil || l.isAbove(4) {
		return false
	}
	l.end()
	return healthy
}

// recoverStore tries to write what waits for a store that could not be written.
func (w *writer) recoverStore() bool {
	l := w.backlog
	f := l.store.Load()
	if f == nil {
		return true
	}
	if err := w.reconnect(f.Reason); err != nil {
		l.stillFailing(err)
		return false
	}
	for {
		w.mu.Lock()
		group := w.gather()
		w.mu.Unlock()
		failed, cause := w.try(append([]*op{{apply: (*book).probeWrite}}, group...))
		if len(failed) > 0 {
			l.stillFailing(cause)
			failed = slices.DeleteFunc(failed, func(o *op) bool { return o.entry == nil && o.reply == nil })
			w.putBack(failed, l.failureOf(cause))
			return false
		}
		w.applied(group)
		if len(group) == 0 {
			l.endStore()
			w.lastRecovery = time.Now()
			w.changed() // answer other gateways' requests of the meantime
			return true
		}
	}
}

// stillFailing updates why the store cannot be written.
func (l *backlog) stillFailing(cause error) {
	if f := l.store.Load(); f != nil {
		l.store.Store(&UnwritableError{Reason: reasonOf(cause), Since: f.Since, cause: cause})
	}
}

// difference is the ops that are not in others.
func difference(ops, others []*op) (left []*op) {
	out := make(map[*op]bool, len(others))
	for _, o := range others {
		out[o] = true
	}
	for _, o := range ops {
		if !out[o] {
			left = append(left, o)
		}
	}
	return left
}

// probeWrite makes a change that needs disk space: an empty transaction would succeed on a full disk.
func (b *book) probeWrite() error {
	_, err := b.Renew(time.Now())
	return err
}

// reconnect reopens the store if the outage may have broken the connection, or the file was replaced.
func (w *writer) reconnect(reason string) error {
	replaced, err := w.book.IsReplaced()
	if err != nil {
		return err
	}
	if replaced || !transient(reason) {
		if err := w.book.Reopen(); err != nil {
			return err
		}
	}
	p := &w.book.Place
	p.Resettle()
	w.replaced = w.replaced || replaced || p.Restored
	switch {
	case w.replaced:
		err = w.renewed(w.book)
	case p.Expelled:
		err = w.expelled(w.book)
	}
	if err == nil {
		w.replaced, p.Restored, p.Expelled = false, false, false
	}
	return err
}
