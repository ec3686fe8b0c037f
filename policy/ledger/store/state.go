package store

import (
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// Gateways of several machines cannot see each other's file locks. In PostgreSQL each has a lease, which its transactions renew. Other gateways consider
// a gateway dead whose lease has ended, and return its blocks; so it must not use its blocks when the lease may have ended, for instance while
// the database does not answer. Its charge log stays on its machine, where the next gateway applies it.

// Lease is the time for which other gateways consider a gateway running after it was renewed. The zero value does not end.
type Lease struct {
	Length  time.Duration
	renewed atomic.Int64 // the time of the renewal, since started
}

// started is the origin of lease times: it has a monotonic clock.
var started = time.Now()

// IsDue reports whether the next transaction should renew the lease.
func (e *Lease) IsDue() bool { return e.age() > e.Length/20 }

// IsExpiring reports whether the lease has ended or may end soon.
func (e *Lease) IsExpiring() bool { return e.Length > 0 && e.age() > e.Length*9/10 }

func (e *Lease) age() time.Duration { return time.Since(started) - time.Duration(e.renewed.Load()) }

// Renew records that a transaction that began at a time has renewed the lease.
func (e *Lease) Renew(began time.Time) { e.renewed.Store(int64(began.Sub(started))) }

// State is a book's state in PostgreSQL: of the store, of its gateway, and of the current transaction.
type State struct {
	ledger  string // the store's id
	Lease   *Lease // nil for tools
	changes int64  // number of committed transactions of all writers, as far as known
	own     int64  // those of this process

	Began  time.Time // start of the transaction
	number int64     // its number in changes, if it is committed
	id     string    // PostgreSQL's transaction id
	renews bool      // it renews the lease

	inDoubt        string // the id of an in-doubt transaction: it is not known whether it was committed
	doubtCommitted bool   // the in-doubt transaction was committed
	Expelled       bool   // others considered this gateway dead, or its blocks are not as in memory
	Restored       bool   // the store is an earlier state of itself, for instance from a backup
}

// ErrExpelled says that other gateways considered this one dead.
var ErrExpelled = errors.New("other gateways took this one for dead")

// beginExclusive begins a transaction, after other writers' transactions have ended.
func beginExclusive(b *Book) error {
	p := &b.State
	p.Began, p.renews = time.Now(), false
	if err := b.Do("BEGIN"); err != nil {
		return err
	}
	err := b.Row(`UPDATE ledger SET changes = changes + 1 RETURNING changes, CAST(pg_current_xact_id() AS TEXT)`).Scan(&p.number, &p.id)
	if err == nil && b.Instance != 0 && !p.Expelled && p.Lease.IsDue() {
		p.renews, err = b.renew(b, p.Began)
		if err == nil && !p.renews {
			p.Expelled = true
			err = ErrExpelled
		}
	}
	if err != nil {
		return errors.Join(err, b.Do("ROLLBACK"))
	}
	return nil
}

// commitVerified commits. If the connection is lost meanwhile, it queries the transaction's status on a new connection. If that fails too, the next
// connection does.
func commitVerified(b *Book) error {
	p := &b.State
	err := b.Do("COMMIT")
	if err == nil {
		p.changes = p.number
		p.committed()
		return nil
	}
	if !IsLost(err) {
		return err
	}
	p.inDoubt = p.id
	if b.reopen(max(minReopen, commitTime-time.Since(p.Began))) != nil || !p.doubtCommitted {
		return err
	}
	p.doubtCommitted = false
	return nil
}

// A transaction with a lost connection waits for its status until commitTime after its begin, but at least for minReopen: then its senders get an error.
const (
	commitTime = 5 * time.Second
	minReopen  = time.Second
)

func (p *State) committed() {
	p.own++
	if p.renews {
		p.Lease.Renew(p.Began)
	}
}

// inheritState takes over the state of a lost connection, and resolves its in-doubt transaction.
func inheritState(before, next *Book) error {
	p, had := &next.State, before.State
	if p.ledger != had.ledger {
		return ErrReplaced
	}
	changes := p.changes
	*p = had
	p.changes, p.Restored = changes, had.Restored || changes < had.changes
	if had.inDoubt == "" || p.Restored {
		return nil
	}
	var status sql.NullString
	if err := next.Row(`SELECT pg_xact_status(CAST(CAST(? AS TEXT) AS XID8))`, had.inDoubt).Scan(&status); err != nil {
		return err
	}
	if status.String == "in progress" {
		return errInDoubt
	}
	p.inDoubt = ""
	if p.doubtCommitted = status.String == "committed"; p.doubtCommitted {
		p.committed()
	}
	return nil
}

// errInDoubt says that the in-doubt transaction is still in progress.
var errInDoubt = errors.New("a transaction of a lost connection has not ended")

// ResolveDoubt is called once a new connection works. If the in-doubt transaction was committed although its senders got an error, this gateway's
// blocks are not as in memory.
func (p *State) ResolveDoubt() {
	p.Expelled = p.Expelled || p.doubtCommitted
	p.doubtCommitted = false
}
