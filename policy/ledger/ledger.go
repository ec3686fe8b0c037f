// Package ledger stores money and keys: prepaid balances in double-entry bookkeeping, reservations and charges of requests, usage, and the rows of
// API keys. Everything is in one store (package store), which gateways and command-line tools open concurrently. The package does not know prices, HTTP, or
// how a key is verified.
//
// It is built on subpackages: store is the database, lock the locks of running gateways, keys the rows of keys, losses the debts of wallets, chargelog the files
// of charges that the store lacks, usage the rows and sums of requests, commit the writer of changes, which retries while the store fails, and audit the checks.
// This package has accounts, blocks, holds, charges and deposits, and the recovery of dead gateways.
//
// A key's balance is durable. A part of it, the block, is durably marked as held by a gateway. A request's reservation is taken out of the block
// in memory only, so that normally no commit precedes the provider's call. A charge is in the gateway's charge log (package chargelog) before
// Capture returns, and is applied to the store a little later, with others. After a crash of a gateway, its logged charges are applied and its blocks are
// returned to the balances: at the next Open, or within a second if another gateway runs. Reads include charges that are not applied yet.
//
// Several gateways may share a store: those of one machine a file, those of several machines a PostgreSQL database. Each is an instance with its own blocks. It
// counts as running as long as it has the lock on a file beside the store (network file systems lack the locks and shared memory that this needs); in PostgreSQL it
// also renews a lease (Options.Lease), and others return its blocks after the lease has ended. A gateway that is short of a key's money asks the others to return
// their unused money.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/lock"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// Options of a ledger. The zero value is for command-line tools.
type Options struct {
	Gateway     bool                                     // a gateway's handle, which may reserve
	Retention   time.Duration                            // how long requests are kept; zero means 30 days, negative forever
	ReserveWait time.Duration                            // how long Reserve waits for other gateways to return money of the key; zero means 1.5 seconds
	IdleReturn  time.Duration                            // idle time after which a key's block is returned to its balance; zero means 1 second
	Durable     bool                                     // Capture waits until the charge is on disk; else a power failure may lose the last milliseconds of charges
	Sync        time.Duration                            // how long a charge in the charge log waits for others before it is synced to the disk; zero means 4 ms
	Flush       time.Duration                            // how long it waits for others before it is applied to the store; zero means 100 ms
	Poll        time.Duration                            // interval of checking for other processes' changes of keys; zero means 250 ms
	Committed   func(took time.Duration, operations int) // called after every commit; may be nil
	Outage      func(Outage)                             // called when Writable begins to fail, and when that ends; may be nil
	AuditWait   time.Duration                            // how long an audit waits for changes that gateways may be writing; zero means 10 seconds, negative not at all
	Lease       time.Duration                            // in PostgreSQL: how long a gateway of another machine counts as running since it last renewed; zero means 5 minutes
	Dir         string                                   // in PostgreSQL: the directory of charge logs and locks
	Connect     store.Connect                            // opens connections to PostgreSQL; nil: such stores cannot be opened
	Log         *slog.Logger                             // for background failures; nil means slog.Default
	Now         func() time.Time                         // nil means time.Now
	Sealer      func() (seal.Sealer, error)              // returns the key that encrypts callers' texts, called for each; nil: they are stored in clear

	charges    chargelog.Options // set in tests
	maxBacklog int64             // set in tests: see commit.Options
}

// Errors of the ledger. A lack of money is an *InsufficientError.
var (
	// ErrInUse means that a gateway of an older version, which cannot share the store, runs on it.
	ErrInUse = errors.New("a gateway of an older version runs on this store: stop it first")
	// ErrNewerStore says that a newer program wrote the store.
	ErrNewerStore = store.ErrNewer
	// ErrClosed says that the ledger is closed.
	ErrClosed = commit.ErrClosed
	// ErrNotGateway says that a handle without Options.Gateway was asked to reserve.
	ErrNotGateway = commit.ErrNotGateway
	// ErrMetered says that a key has no balance.
	ErrMetered = errors.New("the key is metered: it has no balance")
	// ErrUnknownRequest says that there is no such request of this account, or none any more.
	ErrUnknownRequest = errors.New("there is no such request")
	// ErrReused says that a reference or a request id was used before for something else.
	ErrReused = errors.New("the reference was used before for something else")
)

// maxAmount is the maximum of a single amount, so that sums cannot overflow.
const maxAmount = 1_000_000_000 * policy.USD

// maxBalance is the maximum of a balance after a deposit, so that it cannot overflow.
const maxBalance = 1000 * maxAmount

// Ledger is an open store. Safe for concurrent use.
type Ledger struct {
	o          Options
	path       string
	opening    lock.File    // taken while the store is created, migrated and joined
	alive      lock.File    // taken while this gateway runs; changed by the writer's goroutine
	instance   atomic.Int64 // this gateway's id; zero for tools
	lease      store.Lease  // in PostgreSQL: of this gateway
	reads      *store.Readers
	pending    pending
	refused    usage.Refusals
	writer     *commit.Writer
	book       *book // used in ops, and with exclusive use by Writer.Between
	generation atomic.Uint64
	durable    atomic.Bool // as Options.Durable

	mu       sync.Mutex
	accounts map[policy.Account]*account // of keys used since the start

	stop    chan struct{} // ends the janitor
	janitor sync.WaitGroup
	closed  func() error
}

// Open opens the store at path, a file or the URL of a PostgreSQL database, creates it if it does not exist, and migrates it from an older version. It returns the blocks of dead gateways to
// the balances. The error may be ErrNewerStore or ErrInUse.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	o = o.withDefaults()
	l := &Ledger{o: o, accounts: map[policy.Account]*account{}, stop: make(chan struct{})}
	if err := l.openWithRetries(ctx, path); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", store.Redacted(path), err)
	}
	l.durable.Store(o.Durable)
	l.closed = sync.OnceValue(l.shutDown)
	l.writer.Start()
	l.janitor.Go(l.runJanitor)
	return l, nil
}

func (o Options) withDefaults() Options {
	o.Retention = orDefault(o.Retention, 30*24*time.Hour)
	o.ReserveWait = orDefault(o.ReserveWait, 1500*time.Millisecond)
	o.IdleReturn = orDefault(o.IdleReturn, time.Second)
	o.AuditWait = orDefault(o.AuditWait, 10*time.Second)
	o.Lease = orDefault(o.Lease, 5*time.Minute)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// orDefault is d, or the default if d is zero.
func orDefault(d, unset time.Duration) time.Duration {
	if d == 0 {
		return unset
	}
	return d
}

// maxOpenTries is the maximum number of attempts to open a database whose lock another gateway has. An attempt waits some seconds for it; the database ends a
// transaction whose gateway lost its connection within two attempts.
const maxOpenTries = 4

// openWithRetries opens the store. In PostgreSQL it waits longer for other gateways' transactions than a running writer, for which requests wait.
func (l *Ledger) openWithRetries(ctx context.Context, path string) (err error) {
	for range maxOpenTries {
		err = l.open(ctx, path)
		if reason, _ := store.Outage(err); reason != store.Locked || !store.IsPostgres(path) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// open does the steps of Open that can fail, and reverts them after an error.
func (l *Ledger) open(ctx context.Context, path string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, l.release())
		}
	}()
	b, err := l.openStore(ctx, path)
	if err != nil {
		return err
	}
	reads, err := b.OpenReads(ctx)
	if err != nil {
		return err
	}
	l.reads = &store.Readers{Dialect: b.Dialect}
	l.reads.Replace(reads)
	c, err := l.recoverDead(b.atomically)
	if err != nil {
		return err
	}
	l.writer.SetShared(len(c.alive) > 0)
	if l.o.Gateway {
		if err := l.joinStore(b); err != nil {
			return err
		}
	}
	return l.opening.Release()
}

// openStore connects to the store and takes the lock for opening it.
func (l *Ledger) openStore(ctx context.Context, name string) (*book, error) {
	if store.IsPostgres(name) {
		return l.openDatabase(ctx, name)
	}
	d, err := store.SQLite(name)
	if err != nil {
		return nil, err
	}
	if err := l.lockOpening(ctx, d.Path); err != nil {
		return nil, err
	}
	b, err := d.Open(ctx)
	if err != nil {
		return nil, err
	}
	l.use(b)
	return l.book, nil
}

// openDatabase connects to a store in PostgreSQL. Its files on this machine are named by the ledger's id.
func (l *Ledger) openDatabase(ctx context.Context, url string) (*book, error) {
	d, err := store.PostgreSQL(url, l.o.Connect, l.o.Dir)
	if err != nil {
		return nil, err
	}
	b, err := d.Open(ctx)
	if reason, _ := store.Outage(err); reason == store.Unreachable || reason == store.Denied {
		return nil, fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	if err != nil {
		return nil, err
	}
	l.use(b)
	l.lease.Length = l.o.Lease
	b.State.Lease = &l.lease
	return l.book, l.lockOpening(ctx, b.Path)
}

// use makes the writer's book of a connection.
func (l *Ledger) use(b *store.Book) {
	l.book = newBook(b, l.o.Now)
	charges := l.o.charges
	charges.Delay = l.o.Sync
	l.writer = commit.New(b, l.book.tally, commit.Options{
		Gateway: l.o.Gateway, Charges: charges, MaxBacklog: l.o.maxBacklog,
		Flush: l.o.Flush, Poll: l.o.Poll, Committed: l.o.Committed, Outage: l.o.Outage, Now: l.o.Now, Log: l.o.Log,
		Together: l.book.applyBatch, Changed: l.readChanges, Refused: l.saveOwnRefused,
		Replaced: func() error { return l.rejoin(l.book) }, Expelled: func() error { return l.joinStore(l.book) },
	})
}

func (l *Ledger) lockOpening(ctx context.Context, path string) error {
	l.path = path
	l.opening = lock.File{Path: path + ".lock"} // gateways of the first version hold it while they run
	err := l.opening.Take(ctx)
	if errors.Is(err, lock.ErrTaken) {
		return ErrInUse
	}
	return err
}

// SetDurable changes Options.Durable.
func (l *Ledger) SetDurable(durable bool) { l.durable.Store(durable) }

// Path is the store's file, with symbolic links resolved. For a store in PostgreSQL it is the prefix of its files on this machine.
func (l *Ledger) Path() string { return l.path }

// Close writes pending changes, returns every block, and closes the store. Requests must have ended: open holds are released. Later calls return
// the first result.
func (l *Ledger) Close() error { return l.closed() }

// CloseWithin is Close with a deadline. If the store is not closed when ctx ends, for instance because another process holds its lock, charges
// that are not applied stay in the charge log and the error says so; the next gateway on the store applies them. The process must exit after an error.
func (l *Ledger) CloseWithin(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- l.Close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	return errors.Join(fmt.Errorf("close ledger: the store did not take everything in time; %d charges are kept beside it for the next start", l.Unwritten().Charges), l.writer.SecureLog())
}

func (l *Ledger) shutDown() error {
	close(l.stop)
	l.janitor.Wait()
	l.writeRefusals()
	l.writer.Stop()
	err := l.leaveStore()
	if err := errors.Join(err, l.release()); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

// leaveStore unregisters the instance, unless the store cannot be written: then the next process to open it applies the charge log and returns the
// blocks.
func (l *Ledger) leaveStore() error {
	if !l.o.Gateway {
		return nil
	}
	left, err := l.writer.CloseLog()
	if f := l.StoreFailure(); f != nil {
		return errors.Join(err, fmt.Errorf("%s wait: %w", left, f))
	}
	return errors.Join(err, l.book.atomically(func(b *book) error { return b.removeDead([]int64{b.Instance}) }))
}

// release closes all files and connections.
func (l *Ledger) release() error {
	var errs []error
	if l.writer != nil {
		errs = append(errs, l.book.Close(), l.writer.AbandonLog())
	}
	if l.reads != nil {
		errs = append(errs, l.reads.Close())
	}
	return errors.Join(append(errs, l.alive.Release(), l.opening.Release())...)
}

func (l *Ledger) account(name policy.Account) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.accounts[name]
	if !ok {
		a = &account{name: name, blockLock: make(chan struct{}, 1)}
		l.accounts[name] = a
	}
	return a
}
