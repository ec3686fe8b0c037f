package ledger

import (
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// Gateways of several machines cannot see each other's locks on files. In PostgreSQL each has a lease, which its transactions renew. A gateway that
// did not renew it is dead for the others, who return its blocks; so that it must not give out money of them when the lease may have ended, as while
// the database does not answer. Its charge log stays on its machine: the next gateway there applies it.

// lease is how long a gateway is running for the others without a sign of it. The zero value has no end.
type lease struct {
	length  time.Duration
	renewed atomic.Int64 // when it was, as the time since started
}

// started is what times of leases are counted from: it has a monotonic clock.
var started = time.Now()

// isDue reports whether the lease is to be renewed by the next transaction.
func (e *lease) isDue() bool { return e.age() > e.length/20 }

// isOver reports whether the lease may end soon, or has ended.
func (e *lease) isOver() bool { return e.length > 0 && e.age() > e.length*9/10 }

func (e *lease) age() time.Duration { return time.Since(started) - time.Duration(e.renewed.Load()) }

// renew notes that the lease was renewed by a transaction that began at a time.
func (e *lease) renew(began time.Time) { e.renewed.Store(int64(began.Sub(started))) }

// place is what a book knows of its store in PostgreSQL, and of its gateway's place there.
type place struct {
	ledger  string // the store's id
	lease   *lease // nil for tools
	changes int64  // transactions of all writers, as far as known
	own     int64  // of them, of this process

	began  time.Time // of the transaction
	number int64     // as which it counts, if it is committed
	id     string    // PostgreSQL's
	renews bool      // it renews the lease

	doubt    string // the id of a transaction of which it is not known whether it was committed
	settled  bool   // it was
	expelled bool   // others took this gateway for dead, or it does not know what is in its blocks
	restored bool   // the store is an earlier state of itself, as from a backup
}

// errExpelled says that other gateways have taken this one for dead.
var errExpelled = errors.New("other gateways took this one for dead")

// beginAlone begins a transaction, and waits for other writers' to end.
func beginAlone(b *book) error {
	p := &b.place
	p.began, p.renews = time.Now(), false
	if err := b.do("BEGIN"); err != nil {
		return err
	}
	err := b.row(`UPDATE ledger SET changes = changes + 1 RETURNING changes, CAST(pg_current_xact_id() AS TEXT)`).Scan(&p.number, &p.id)
	if err == nil && b.instance != 0 && !p.expelled && p.lease.isDue() {
		p.renews, err = b.renew(b, p.began)
		if err == nil && !p.renews {
			p.expelled = true
			err = errExpelled
		}
	}
	if err != nil {
		return errors.Join(err, b.do("ROLLBACK"))
	}
	return nil
}

// commitForSure commits. Where the connection is lost meanwhile, it asks the database through another one what became of the transaction. If that does
// not answer, the next connection finds out.
func commitForSure(b *book) error {
	p := &b.place
	err := b.do("COMMIT")
	if err == nil {
		p.changes = p.number
		p.committed()
		return nil
	}
	if !isLost(err) {
		return err
	}
	p.doubt = p.id
	if b.reopen() != nil || !p.settled {
		return err
	}
	p.settled = false
	return nil
}

func (p *place) committed() {
	p.own++
	if p.renews {
		p.lease.renew(p.began)
	}
}

// isLost reports whether the connection is lost.
func isLost(err error) bool { return err != nil && reasonOf(err) == reasonAway }

// inheritPlace takes over what was known before the connection was lost.
func inheritPlace(before, next *book) error {
	p, had := &next.place, before.place
	if p.ledger != had.ledger {
		return errReplaced
	}
	changes := p.changes
	*p = had
	p.changes, p.restored = changes, had.restored || changes < had.changes
	if had.doubt == "" || p.restored {
		return nil
	}
	var status sql.NullString
	if err := next.row(`SELECT pg_xact_status(CAST(CAST(? AS TEXT) AS XID8))`, had.doubt).Scan(&status); err != nil {
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

// resettle is called once a new connection serves. Where the last transaction was committed and its senders were told that it was not, this gateway's
// blocks are not what memory says.
func (p *place) resettle() {
	p.expelled = p.expelled || p.settled
	p.settled = false
}
