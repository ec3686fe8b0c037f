package ledger

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// During an outage the store is tried again after a pause, which grows while it fails. An outage soon after another one begins where that
// left off, so that a disk that has room for one commit in a while does not make the gateway change its mind ten times a second.
const (
	pauseLeast = 100 * time.Millisecond
	pauseMost  = 2 * time.Second
	calm       = 10 * time.Second
)

func (w *writer) firstPause() time.Duration {
	if w.pause == 0 || time.Since(w.healed) > calm {
		w.pause = pauseLeast
	}
	return w.pause
}

func (w *writer) nextPause() time.Duration {
	w.pause = min(2*w.pause, pauseMost)
	return w.pause
}

// fail begins an outage that was noticed without a commit.
func (w *writer) fail(cause error) {
	_ = w.backlog.begin(cause)
	signal(w.broken)
}

// recover tries to end an outage: it writes what waits, and ends it once all of it is written. It reports whether the store can be written.
// Nobody else is at the book.
func (w *writer) recover() bool {
	l := w.backlog
	f := l.failed()
	if f == nil {
		return true
	}
	if err := w.revive(f.Reason); err != nil {
		l.again(err)
		return false
	}
	for {
		waiting := l.next(groupLimit)
		failed, cause := w.try(append([]*op{{apply: (*book).beat}}, waiting...))
		l.drop(without(waiting, failed))
		if len(failed) > 0 {
			l.again(cause)
			return false
		}
		if l.end() {
			w.healed = time.Now()
			w.changed() // what other gateways asked for meanwhile has no answer yet
			return true
		}
	}
}

// without are the ops that are not among others.
func without(ops, others []*op) (left []*op) {
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

// beat is a change that needs the disk: a transaction that changes nothing could be committed to one that is full.
func (b *book) beat() error {
	_, err := b.exec(`UPDATE instance SET at = ? WHERE id = ?`, time.Now().UnixMicro(), b.instance)
	return err
}

// revive makes the connection to the store anew where the outage may have broken it, or another file lies where the store was.
func (w *writer) revive(reason string) error {
	replaced, err := w.book.isReplaced()
	if err != nil || !replaced && transient(reason) {
		return err
	}
	if err := w.book.reopen(); err != nil {
		return err
	}
	w.orphan = w.orphan || replaced
	if !w.orphan {
		return nil
	}
	if err := w.renewed(w.book); err != nil {
		return err
	}
	w.orphan = false
	return nil
}

// readers are the connections that read, of which there are others once the store is another file.
type readers struct {
	now    atomic.Pointer[sql.DB]
	before *sql.DB // closed with the next replacement: somebody may still read from it
}

// replace has later queries go to other connections. One goroutine calls it.
func (r *readers) replace(db *sql.DB) {
	if r.before != nil {
		_ = r.before.Close()
	}
	r.before = r.now.Swap(db)
}

// Close closes the connections of now and of before.
func (r *readers) Close() error {
	var errs []error
	for _, db := range []*sql.DB{r.before, r.now.Load()} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// QueryContext is that of sql.DB.
func (r *readers) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.now.Load().QueryContext(ctx, query, args...) //nolint:gosec // queries are constants of this package
}

// QueryRowContext is that of sql.DB.
func (r *readers) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.now.Load().QueryRowContext(ctx, query, args...)
}

// BeginTx is that of sql.DB.
func (r *readers) BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error) {
	return r.now.Load().BeginTx(ctx, o)
}
