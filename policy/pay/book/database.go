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

// In PostgreSQL, gateways of several machines share a store, and cannot see each other's file locks. Each has a lease: a row that it renews. When a lease has
// expired, the others take over the gateway's payments and the settlements. The gateway may still run, without network or with a stopped process: therefore
// each change of a payment names its gateway, and each change of a settlement verifies, in its transaction, that this gateway settles (fencing). Leases use the
// database's clock.

//go:embed postgres.sql
var postgresSchema string

const postgresVersion = 1

const (
	leaseTime      = 15 * time.Second
	renewInterval  = 2 * time.Second    // between renewals
	renewTimeout   = 5 * time.Second    // of a renewal
	leaseRetention = 7 * 24 * time.Hour // after which rows of expired leases are deleted
	maxConns       = 16                 // connections of a gateway to the database
)

// alivePrefix is the prefix of the files by which the gateways of one state directory detect each other's end.
const alivePrefix = "payments"

// openDatabase opens the tables of a database, and creates them if they are missing.
func (b *Book) openDatabase(ctx context.Context, at Place) (err error) {
	if at.Connect == nil {
		return store.ErrNoPostgres
	}
	if b.db, err = at.Connect(ctx, at.URL, true); err != nil {
		return err
	}
	b.db.SetMaxOpenConns(maxConns)
	b.db.SetMaxIdleConns(maxConns)
	b.queries = queries{b.db, store.ForPostgres}
	if err := b.prepareDatabase(ctx); err != nil {
		return err
	}
	prefix := filepath.Join(at.Dir, alivePrefix)
	dead, err := sweep(prefix)
	if err != nil {
		return err
	}
	l := &leases{b: b, holder: b.holder, done: make(chan struct{})}
	if l.alive, err = lockAlive(prefix, b.holder); err != nil {
		return err
	}
	if err := l.deleteLeases(ctx, dead); err != nil {
		return errors.Join(err, unlockAlive(l.alive))
	}
	b.peers = l
	return l.start(ctx)
}

// prepareDatabase creates and upgrades the tables, in one process at a time.
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
		return errNewer(version)
	}
	for _, c := range added {
		if err := addColumn(ctx, tx, c.name, c.change); err != nil {
			return err
		}
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

// added are the columns that the payments of earlier versions do not have. Gateways of earlier versions ignore them.
var added = []struct{ name, change string }{
	{"look_at", `ALTER TABLE payment ADD COLUMN look_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX payment_look ON payment (look_at) WHERE look_at > 0`},
	{"debt", `ALTER TABLE payment ADD COLUMN debt BIGINT NOT NULL DEFAULT 0`},
	{"kept", `ALTER TABLE payment ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;` + markKept},
}

// addColumn changes payments that do not have a column.
func addColumn(ctx context.Context, tx *sql.Tx, name, change string) error {
	has, err := hasColumn(ctx, tx, "payment", name)
	if err != nil || has {
		return err
	}
	_, err = tx.ExecContext(ctx, change)
	return err
}

// readDatabaseMark reads the number of the store's mark, and draws one if it has none.
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

// hasTables reports whether a database has the tables of payments.
func hasTables(ctx context.Context, on executor) (there bool, err error) {
	err = on.QueryRowContext(ctx, `SELECT current_schema() IS NOT NULL AND to_regclass('payment_book') IS NOT NULL`).Scan(&there)
	return there, err
}

// leases coordinates the gateways that share a database.
type leases struct {
	b       *Book
	holder  string
	alive   *lock.File
	renewed atomic.Pointer[time.Time] // start of the last renewal, by this process's clock
	stop    context.CancelFunc
	done    chan struct{}
}

// start renews the lease until leave.
func (l *leases) start(ctx context.Context) error {
	if err := l.renew(ctx); err != nil {
		close(l.done)
		return err
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	guard.Go(func() {
		defer close(l.done)
		_ = guard.Again(ctx, func() error { l.run(ctx); return nil })()
	})
	return nil
}

func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = l.renew(ctx) // it is retried, and present checks its age before a reservation
		}
	}
}

// renew renews the lease of this gateway.
func (l *leases) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	began := time.Now()
	_, err := l.b.exec(ctx, `INSERT INTO payment_gateway (id, at) VALUES (?1, `+store.NowPostgres+`) ON CONFLICT (id) DO UPDATE SET at = `+store.NowPostgres, l.holder)
	if err == nil {
		l.renewed.Store(&began)
	}
	return err
}

// ensureLease implements peers: a reservation is valid for at least half of the lease, and longer while it is renewed.
func (l *leases) ensureLease(ctx context.Context) error {
	if last := l.renewed.Load(); last != nil && time.Since(*last) < leaseTime/2 {
		return nil
	}
	return retryLost(ctx, func() error { return l.renew(ctx) })
}

// leaseExpired is the condition for the rows of gateways whose leases have expired.
var leaseExpired = fmt.Sprintf("%s > %d", store.IdlePostgres, leaseTime.Microseconds())

// running implements peers.
func (l *leases) running(ctx context.Context) (func(string) (bool, error), error) {
	runs := map[string]bool{l.holder: true}
	rows, err := l.b.rows(ctx, `SELECT id FROM payment_gateway WHERE NOT (`+leaseExpired+`)`)
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, func(row scanner) error {
		var id string
		err := row.Scan(&id)
		runs[id] = true
		return err
	})
	return func(holder string) (bool, error) { return runs[holder], nil }, err
}

// claim implements peers.
func (l *leases) claim(ctx context.Context) (ok bool, err error) {
	if err := l.ensureLease(ctx); err != nil {
		return false, err
	}
	var settles string
	if err := l.b.row(ctx, `SELECT holder FROM payment_settler`).Scan(&settles); err != nil || settles == l.holder {
		return err == nil, err
	}
	n, err := l.b.exec(ctx, `UPDATE payment_settler SET holder = ?1 WHERE NOT EXISTS (SELECT 1 FROM payment_gateway WHERE id = payment_settler.holder AND NOT (`+leaseExpired+`))`, l.holder)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = l.b.exec(ctx, `DELETE FROM payment_gateway WHERE at < `+store.NowPostgres+` - ?1`, leaseRetention.Microseconds())
	return err == nil, err
}

func (l *leases) yield(ctx context.Context) error {
	_, err := l.b.exec(ctx, `UPDATE payment_settler SET holder = '' WHERE holder = ?1`, l.holder)
	return err
}

// fence implements peers: no other gateway can take over the settlements before the transaction ends.
func (l *leases) fence(ctx context.Context, tx queries) error {
	var is int
	err := tx.row(ctx, `SELECT 1 FROM payment_settler WHERE holder = ?1 FOR SHARE`, l.holder).Scan(&is)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrLost
	}
	return err
}

// serialize implements peers. It also makes payments visible in the order of their ids.
func (*leases) serialize(ctx context.Context, tx queries) error {
	var version int
	return tx.row(ctx, `SELECT version FROM payment_book FOR UPDATE`).Scan(&version)
}

// deleteLeases deletes the leases of gateways that do not run.
func (l *leases) deleteLeases(ctx context.Context, dead []string) error {
	for _, id := range dead {
		if _, err := l.b.exec(ctx, `DELETE FROM payment_gateway WHERE id = ?1`, id); err != nil {
			return err
		}
	}
	return nil
}

func (l *leases) close() error {
	if l.stop != nil {
		l.stop()
	}
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	return errors.Join(l.yield(ctx), l.deleteLeases(ctx, []string{l.holder}), unlockAlive(l.alive))
}
