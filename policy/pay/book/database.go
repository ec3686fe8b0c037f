package book

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/ledger/lock"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/pay"
)

// In PostgreSQL gateways of several machines share a store, and cannot see each other's locks on files. Each has a lease: a row that it renews. One whose
// lease is over has ended for the others, who take over its payments and the settlements. It may run still, with its network lost or its process stopped: so
// each change of a payment says for which gateway it is, and each change of a settlement makes sure, in its transaction, that this gateway settles (fencing).
// The times of leases are those of the database's clock.

//go:embed postgres.sql
var postgresSchema string

const postgresVersion = 1

const (
	leaseTime    = 15 * time.Second
	beatTime     = 2 * time.Second // between renewals
	beatTimeout  = 5 * time.Second // of one of them
	forgetTime   = 7 * 24 * time.Hour
	mostSessions = 16 // of a gateway with the database
)

// alivePrefix begins the names of the files by which the gateways of one state directory know of each other's end.
const alivePrefix = "payments"

// openDatabase opens the tables of a database, and makes them if they are missing.
func (b *Book) openDatabase(ctx context.Context, at Place) (err error) {
	if at.Connect == nil {
		return store.ErrNoPostgres
	}
	if b.db, err = at.Connect(ctx, at.URL, true); err != nil {
		return err
	}
	b.db.SetMaxOpenConns(mostSessions)
	b.db.SetMaxIdleConns(mostSessions)
	b.queries = queries{b.db, store.ForPostgres}
	if err := b.prepareDatabase(ctx); err != nil {
		return err
	}
	prefix := filepath.Join(at.Dir, alivePrefix)
	dead, err := sweep(prefix)
	if err != nil {
		return err
	}
	l := &leases{b: b, holder: b.holder, over: make(chan struct{})}
	if l.alive, err = stayAlive(prefix, b.holder); err != nil {
		return err
	}
	if err := l.bury(ctx, dead); err != nil {
		return errors.Join(err, die(l.alive))
	}
	b.peers = l
	return l.start(ctx)
}

// prepareDatabase makes the tables, while no other process does.
func (b *Book) prepareDatabase(ctx context.Context) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()             //nolint:errcheck // after Commit there is nothing to roll back
	const number = 0x626172646f2e70 // an arbitrary one
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, number); err != nil {
		return err
	}
	if err := store.MakeSchema(ctx, tx); err != nil {
		return err
	}
	there, err := hasTables(ctx, tx)
	if err != nil {
		return err
	}
	if !there {
		if _, err := tx.ExecContext(ctx, postgresSchema); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO payment_book (version) VALUES ($1)`, postgresVersion); err != nil {
			return err
		}
	}
	var version int
	if err := tx.QueryRowContext(ctx, `SELECT version FROM payment_book`).Scan(&version); err != nil {
		return err
	}
	if version > postgresVersion {
		return newer(version)
	}
	if err := addLooks(ctx, tx); err != nil {
		return err
	}
	if err := b.readDatabaseMark(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// hasColumn reports whether a table has a column.
func hasColumn(ctx context.Context, tx *sql.Tx, table, column string) (has bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2`, table, column).Scan(&has)
	return has, err
}

// addLooks adds the column look_at to tables of before there was one. Gateways of earlier versions leave it alone.
func addLooks(ctx context.Context, tx *sql.Tx) error {
	has, err := hasColumn(ctx, tx, "payment", "look_at")
	if err != nil || has {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ALTER TABLE payment ADD COLUMN look_at BIGINT NOT NULL DEFAULT 0`); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `CREATE INDEX payment_look ON payment (look_at) WHERE look_at > 0`)
	return err
}

// readDatabaseMark reads the number of the store, and gives it one if it has none.
func (b *Book) readDatabaseMark(ctx context.Context, tx *sql.Tx) error {
	has, err := hasColumn(ctx, tx, "payment_book", "mark")
	if err != nil {
		return err
	}
	if !has {
		if _, err := tx.ExecContext(ctx, `ALTER TABLE payment_book ADD COLUMN mark BIGINT NOT NULL DEFAULT 0`); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE payment_book SET mark = $1 WHERE mark = 0`, rand.Int64N(math.MaxInt64-1)+1); err != nil { //nolint:gosec // it is to differ from others, and is no secret
		return err
	}
	var id uint64
	err = tx.QueryRowContext(ctx, `SELECT mark FROM payment_book`).Scan(&id)
	b.mark = pay.NewMark(id)
	return err
}

// hasTables reports whether a database has payments.
func hasTables(ctx context.Context, on executor) (there bool, err error) {
	err = on.QueryRowContext(ctx, `SELECT current_schema() IS NOT NULL AND to_regclass('payment_book') IS NOT NULL`).Scan(&there)
	return there, err
}

// leases are the gateways that share a database.
type leases struct {
	b       *Book
	holder  string
	alive   *lock.File
	renewed atomic.Pointer[time.Time] // by this process's clock, when the last renewal began
	stop    context.CancelFunc
	over    chan struct{}
}

// start renews the lease until leave.
func (l *leases) start(ctx context.Context) error {
	if err := l.renew(ctx); err != nil {
		close(l.over)
		return err
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	guard.Go(func() {
		defer close(l.over)
		_ = guard.Again(ctx, func() error { l.run(ctx); return nil })()
	})
	return nil
}

func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(beatTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = l.renew(ctx) // it is tried again, and who reserves looks how old the last one is
		}
	}
}

// renew says that this gateway runs.
func (l *leases) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	began := time.Now()
	_, err := l.b.exec(ctx, `INSERT INTO payment_gateway (id, at) VALUES (?1, `+store.NowPostgres+`) ON CONFLICT (id) DO UPDATE SET at = `+store.NowPostgres, l.holder)
	if err == nil {
		l.renewed.Store(&began)
	}
	return err
}

// present implements peers: what is reserved is safe for at least half of the lease, and for ever while it is renewed.
func (l *leases) present(ctx context.Context) error {
	if last := l.renewed.Load(); last != nil && time.Since(*last) < leaseTime/2 {
		return nil
	}
	return again(ctx, func() error { return l.renew(ctx) })
}

// isOver is the condition of a gateway's row whose lease is over.
var isOver = fmt.Sprintf("%s > %d", store.IdlePostgres, leaseTime.Microseconds())

// running implements peers.
func (l *leases) running(ctx context.Context) (func(string) (bool, error), error) {
	runs := map[string]bool{l.holder: true}
	rows, err := l.b.rows(ctx, `SELECT id FROM payment_gateway WHERE NOT (`+isOver+`)`)
	if err != nil {
		return nil, err
	}
	err = each(rows, func(row scanner) error {
		var id string
		err := row.Scan(&id)
		runs[id] = true
		return err
	})
	return func(holder string) (bool, error) { return runs[holder], nil }, err
}

// claim implements peers.
func (l *leases) claim(ctx context.Context) (ok bool, err error) {
	if err := l.present(ctx); err != nil {
		return false, err
	}
	var settles string
	if err := l.b.row(ctx, `SELECT holder FROM payment_settler`).Scan(&settles); err != nil || settles == l.holder {
		return err == nil, err
	}
	n, err := l.b.exec(ctx, `UPDATE payment_settler SET holder = ?1 WHERE NOT EXISTS (SELECT 1 FROM payment_gateway WHERE id = payment_settler.holder AND NOT (`+isOver+`))`, l.holder)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = l.b.exec(ctx, `DELETE FROM payment_gateway WHERE at < `+store.NowPostgres+` - ?1`, forgetTime.Microseconds())
	return err == nil, err
}

func (l *leases) yield(ctx context.Context) error {
	_, err := l.b.exec(ctx, `UPDATE payment_settler SET holder = '' WHERE holder = ?1`, l.holder)
	return err
}

// fence implements peers: nobody takes the settlements over before the transaction has ended.
func (l *leases) fence(ctx context.Context, tx queries) error {
	var is int
	err := tx.row(ctx, `SELECT 1 FROM payment_settler WHERE holder = ?1 FOR SHARE`, l.holder).Scan(&is)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrLost
	}
	return err
}

// serialize implements peers. Payments appear in the order of their ids, too.
func (*leases) serialize(ctx context.Context, tx queries) error {
	var version int
	return tx.row(ctx, `SELECT version FROM payment_book FOR UPDATE`).Scan(&version)
}

// bury ends the leases of gateways of which it is known that they do not run.
func (l *leases) bury(ctx context.Context, dead []string) error {
	for _, id := range dead {
		if _, err := l.b.exec(ctx, `DELETE FROM payment_gateway WHERE id = ?1`, id); err != nil {
			return err
		}
	}
	return nil
}

func (l *leases) leave() error {
	if l.stop != nil {
		l.stop()
	}
	<-l.over
	ctx, cancel := context.WithTimeout(context.Background(), beatTimeout)
	defer cancel()
	return errors.Join(l.yield(ctx), l.bury(ctx, []string{l.holder}), die(l.alive))
}
