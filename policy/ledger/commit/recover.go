package commit

import (
	"slices"
	"time"
)

// During an outage the store is retried with exponential backoff. An outage soon after another one continues with its pause, so that a disk that
// is almost full does not make the state flap.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
	calm     = 10 * time.Second // after this time without an outage the next one begins with minPause
)

func (w *Writer) firstPause() time.Duration {
	if w.pause == 0 || time.Since(w.lastRecovery) > calm {
		w.pause = minPause
	}
	return w.pause
}

func (w *Writer) nextPause() time.Duration {
	w.pause = min(2*w.pause, maxPause)
	return w.pause
}

// recover tries to end outages of the store and of the charge log, and reports whether there is none. The caller has exclusive use of the book.
func (w *Writer) recover() bool {
	b := w.backlog
	if b == nil {
		return true
	}
	healthy := w.recoverStore()
	if b.failure.Load() == nil {
		return healthy
	}
	if err := b.secure(); err != nil || b.isAbove(4) {
		return false
	}
	b.endOutage()
	return healthy
}

// recoverStore reconnects to a store that could not be written, and commits the waiting ops.
func (w *Writer) recoverStore() bool {
	b := w.backlog
	f := b.store.Load()
	if f == nil {
		return true
	}
	if err := w.reconnect(f.Reason); err != nil {
		b.stillFailing(err)
		return false
	}
	for {
		w.mu.Lock()
		group := w.gather()
		w.mu.Unlock()
		failed, cause := w.try(append([]*Op{{Apply: w.probeWrite}}, group...))
		if len(failed) > 0 {
			b.stillFailing(cause)
			failed = slices.DeleteFunc(failed, func(o *Op) bool { return o.Entry == nil && o.reply == nil })
			w.putBack(failed, b.unwritable(cause))
			return false
		}
		w.applied(group)
		if len(group) == 0 {
			b.endStoreOutage()
			w.lastRecovery = time.Now()
			w.changed() // answer other gateways' requests of the meantime
			return true
		}
	}
}

// stillFailing updates why the store cannot be written.
func (b *backlog) stillFailing(cause error) {
	if f := b.store.Load(); f != nil {
		b.store.Store(&UnwritableError{Reason: reasonOf(cause), Since: f.Since, cause: cause})
	}
}

// probeWrite makes a change that needs disk space: an empty transaction would succeed on a full disk.
func (w *Writer) probeWrite() error {
	_, err := w.book.Renew(time.Now())
	return err
}

// reconnect reopens the store if the outage may have broken the connection, or the file was replaced.
func (w *Writer) reconnect(reason string) error {
	replaced, err := w.book.IsReplaced()
	if err != nil {
		return err
	}
	if replaced || !keepsConnection(reason) {
		if err := w.book.Reopen(); err != nil {
			return err
		}
	}
	p := &w.book.State
	p.ResolveDoubt()
	w.replaced = w.replaced || replaced || p.Restored
	switch {
	case w.replaced && w.o.Replaced != nil:
		err = w.o.Replaced()
	case !w.replaced && p.Expelled && w.o.Expelled != nil:
		err = w.o.Expelled()
	}
	if err == nil {
		w.replaced, p.Restored, p.Expelled = false, false, false
	}
	return err
}
