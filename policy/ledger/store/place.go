package store

import (
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// Gateways of several machines cannot see each other's locks on files. In PostgreSQL each has a lease, which its transactions renew. A gateway that
// did not renew it is dead for the others, who return its blocks; so that it must not give out money of them when the lease may have ended, as while
// the database does not answer. Its charge log stays on its machine: the next gateway there applies it.

// Lease is how long a gateway is running for the others without a sign of it. The zero value has no end.
type Lease struct {
	Length  time.Duration
	renewed atomic.Int64 // when it was, as the time since started
}

// started is what times of leases are counted from: it has a monotonic clock.
var started = time.Now()

// IsDue reports whether the lease is to be renewed by the next transaction.
func (e *Lease) IsDue() bool { return e.age() > e.Length/20 }

// IsOver reports whether the lease may end soon, or has ended.
func (e *Lease) IsOver() bool { return e.Length > 0 && e.age() > e.Length*9/10 }

func (e *Lease) age() time.Duration { return time.Since(started) - time.Duration(e.renewed.Load()) }

// Renew notes that the lease was renewed by a transaction that began at a time.
func (e *Lease) Renew(began time.Time) { e.renewed.Store(int64(began.Sub(started))) }

// Place is what a book knows of its store in PostgreSQL, and of its gateway's place there.
type Place struct {
	ledger  string // the store's id
	Lease   *Lease // nil for tools
	changes int64  // transactions of all writers, as far as known
	own     int64  // of them, of this process

	Began  time.Time // of the transaction
	number int64     // as which it counts, if it is committed
	id     string    // PostgreSQL's
	renews bool      // it renews the lease

	doubt    string // the id of a transaction of which it is not known whether it was committed
	settled  bool   // it was
	Expelled bool   // others took this gateway for dead, or it does not know what is in its blocks
	Restored bool   // the store is an earlier state of itself, as from a backup
}

// ErrExpelled says that other gateways have taken this one for dead.
var ErrExpelled = errors.New("other gateways took this one for dead")

// beginAlone begins a transaction, and waits for other writers' to end.
func beginAlone(b *Book) error {
	p := &b.Place
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

// commitForSure commits. Where the connection is lost meanwhile, it asks the database through another one what became of the transaction. If that does
// not answer, the next connection finds out.
func commitForSure(b *Book) error {
	p := &b.Place
	err := b.Do("COMMIT")
	if err == nil {
		p.changes = p.number
		p.committed()
		return nil
	}
	if !IsLost(err) {
		return err
	}
	p.doubt = p.id
	if b.Reopen() != nil || !p.settled {
		return err
	}
	p.settled = false
	return nil
}

func (p *Place) committed() {
	p.own++
	if p.renews {
		p.Lease.Renew(p.Began)
	}
}

// inheritPlace takes over what was known before the connection was lost.
func inheritPlace(before, next *Book) error {
	p, had := &next.Place, before.Place
	if p.ledger != had.ledger {
		return ErrReplaced
	}
	changes := p.changes
	*p = had
	p.changes, p.Restored = changes, had.Restored || changes < had.changes
	if had.doubt == "" || p.Restored {
		return nil
	}
	var status sql.NullString
	if err := next.Row(`SELECT pg_xact_status(CAST(CAST(? AS TEXT) AS XID8))`, had.doubt).Scan(&status); err != nil {
		return err
	}
	if status.String == "in progress" {
		return errUnsettled
	}
	p.doubt = ""
	if p.settled = status.String == "committed"; p.settled {
		p.committed()
	}
	return nil
}

// errUnsettled says that the database itself does not know yet.
var errUnsettled = errors.New("a transaction of a lost connection has not ended")

// Resettle is called once a new connection serves. Where the last transaction was committed and its senders were told that it was not, this gateway's
// blocks are not what memory says.
func (p *Place) Resettle() {
	p.Expelled = p.Expelled || p.settled
	p.settled = false
}
