// Package ledger keeps the money and the keys: prepaid balances in double entry, what is reserved before a request and
// charged after it, what every request used, and the rows of API keys. All of it lies in one SQLite file, which the
// gateways and the command-line tools open at the same time. The package does not know prices, HTTP, or how a key is
// verified.
//
// A key's money has three forms. Its balance is durable. A part of the balance, the block, is durably marked as held by
// a gateway. Out of its block a request's reserve is taken in memory alone, so that normally no commit stands before
// the provider's call. A charge is committed before Capture returns; what a crash leaves held goes back to the balances
// at the next Open, or within a second where another gateway runs.
//
// Several gateways of one machine may share a store. Each is an instance with blocks of its own, and lives as long as it
// has the lock on a file beside the store. A gateway that is short of a key's money asks the others for what they hold of
// it and do not use. Network file systems have neither the locks nor the shared memory for that.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
)

// Options say how a ledger is opened. The zero value is what a command-line tool uses.
type Options struct {
	Gateway   bool                                     // a gateway's own handle, which may reserve
	Retention time.Duration                            // how long single requests are kept; zero means 30 days, negative for ever
	Patience  time.Duration                            // how long a request waits for what other gateways hold of its key; zero means 1.5 seconds
	Idle      time.Duration                            // after it, a quiet key's block goes back to its balance; zero means 1 second
	Flush     time.Duration                            // the longest that Record writes behind; zero means 200 ms
	Poll      time.Duration                            // how often other processes' changes of keys are looked for; zero means 250 ms
	Committed func(took time.Duration, operations int) // called after every commit; nil: nobody counts
	Outage    func(Outage)                             // called when the store cannot be written any more, and when it can again; nil: nobody asks
	Log       *slog.Logger                             // what fails in the background; nil means slog.Default
	Now       func() time.Time                         // nil means time.Now
}

// What the store can refuse. Failures that belong to an amount are an *InsufficientError.
var (
	// ErrInUse says that a gateway of an older version, which shares with nobody, runs on the store.
	ErrInUse = errors.New("a gateway of an older version runs on this store: stop it first")
	// ErrNewerStore says that a newer program wrote the store.
	ErrNewerStore = errors.New("the store was written by a newer version of this program")
	// ErrClosed says that the ledger is closed.
	ErrClosed = errors.New("the ledger is closed")
	// ErrNotGateway says that a handle without Options.Gateway was asked to reserve.
	ErrNotGateway = errors.New("only a gateway may reserve money")
	// ErrUnknownKey says that there is no such key.
	ErrUnknownKey = errors.New("there is no such key")
	// ErrKeyExists says that a key's id is taken.
	ErrKeyExists = errors.New("there is a key with this id already")
	// ErrMetered says that a key has no balance.
	ErrMetered = errors.New("the key is metered: it has no balance")
	// ErrPrepaid says that a key with a balance was to become metered.
	ErrPrepaid = errors.New("the key has a balance: it cannot become metered")
	// ErrUnknownRequest says that there is no such request of this account, or none any more.
	ErrUnknownRequest = errors.New("there is no such request")
	// ErrReused says that a reference or a request id was used before for something else.
	ErrReused = errors.New("the reference was used before for something else")
	// ErrAmount says that an amount is out of range.
	ErrAmount = errors.New("the amount is out of range")
)

// maxAmount bounds single amounts, so that sums of them stay far from the limits of an integer.
const maxAmount = 1_000_000_000 * policy.USD

// Ledger is an open store. Safe for concurrent use.
type Ledger struct {
	o          Options
	path       string
	opening    fileLock     // taken while the store is made, brought forward and joined
	alive      fileLock     // taken while this gateway lives; changed by the writer's goroutine
	instance   atomic.Int64 // this gateway's number; zero for tools
	reads      *readers
	waiting    waiting
	refused    refusals
	writer     *writer
	generation atomic.Uint64

	mu       sync.Mutex
	accounts map[policy.Account]*account // one per key used since the start

	stop    chan struct{} // ends the janitor
	janitor sync.WaitGroup
	closed  func() error
}

// Open opens the store at path and makes it when it does not exist. A store of an older version is brought forward;
// ErrNewerStore and ErrInUse say what they say. What gateways that run no more have left held goes back to the balances.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	o = o.withDefaults()
	l := &Ledger{o: o, accounts: map[policy.Account]*account{}, stop: make(chan struct{})}
	if err := l.open(ctx, path); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	l.closed = sync.OnceValue(l.shutDown)
	l.writer.start()
	l.janitor.Go(l.tidy)
	return l, nil
}

func (o Options) withDefaults() Options {
	o.Retention = positive(o.Retention, 30*24*time.Hour)
	o.Patience = positive(o.Patience, 1500*time.Millisecond)
	o.Idle = positive(o.Idle, time.Second)
	o.Flush = positive(o.Flush, 200*time.Millisecond)
	o.Poll = positive(o.Poll, 250*time.Millisecond)
	if o.Outage == nil {
		o.Outage = func(Outage) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// positive is d, or the default when d is not set.
func positive(d, unset time.Duration) time.Duration {
	if d == 0 {
		return unset
	}
	return d
}

// open does the parts of Open that can fail, and undoes them when one does.
func (l *Ledger) open(ctx context.Context, path string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, l.release())
		}
	}()
	if err := createPrivate(path); err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // all who share a store must find the same locks
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	l.path = path
	l.opening = fileLock{path: path + ".lock"} // which a gateway of the first version has as long as it runs
	if err := l.opening.take(ctx); err != nil {
		return err
	}
	b, err := openBook(ctx, writeDSN(path))
	if err != nil {
		return err
	}
	l.writer = newWriter(b, l.o)
	b.path = path
	if err := b.identify(); err != nil {
		return err
	}
	if b.turn, err = openTurn(path); err != nil {
		return err
	}
	l.writer.changed, l.writer.renewed = l.readChanges, l.renew
	reads, err := openReads(ctx, path)
	if err != nil {
		return err
	}
	l.reads = &readers{}
	l.reads.replace(reads)
	c, err := l.recoverDead(b.atomically)
	if err != nil {
		return err
	}
	l.writer.company.Store(len(c.alive) > 0)
	if l.o.Gateway {
		if err := l.enter(b); err != nil {
			return err
		}
	}
	return l.opening.drop()
}

// Path is the file that the store lies in, symbolic links followed.
func (l *Ledger) Path() string { return l.path }

// Close writes what is pending, gives every block back, and closes the store. The caller has ended its requests: a hold
// that is still open is released. Later calls return what the first one did.
func (l *Ledger) Close() error { return l.closed() }

// CloseWithin is Close, until ctx is done. If the store is still not closed then, for example because another process holds its lock, the
// charges that wait are written to the spill file, and the error says so; the next gateway on the store writes them. The program has to end
// after an error.
func (l *Ledger) CloseWithin(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- l.Close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	n, err := l.writer.keepAll()
	return errors.Join(fmt.Errorf("close ledger: the store did not take everything in time; %d charges are kept beside it for the next start", n), err)
}

func (l *Ledger) shutDown() error {
	close(l.stop)
	l.janitor.Wait()
	l.writeRefusals()
	l.writer.stop()
	err := l.leave()
	if err := errors.Join(err, l.release()); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

// leave ends the instance, unless the store cannot be written: then whoever opens it next writes what waits, and gives the blocks back.
func (l *Ledger) leave() error {
	if !l.o.Gateway {
		return nil
	}
	left, err := l.writer.backlog.close()
	if f := l.Writable(); f != nil {
		return errors.Join(err, fmt.Errorf("%s wait: %w", left, f))
	}
	return errors.Join(err, l.writer.book.atomically(func(b *book) error { return b.bury([]int64{b.instance}) }))
}

// release closes whatever is open.
func (l *Ledger) release() error {
	var errs []error
	if l.writer != nil {
		errs = append(errs, l.writer.book.close(), l.writer.backlog.abandon())
	}
	if l.reads != nil {
		errs = append(errs, l.reads.Close())
	}
	return errors.Join(append(errs, l.alive.drop(), l.opening.drop())...)
}

// createPrivate makes the store's file readable by its owner alone; the files beside it inherit that.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names the store
	if err != nil {
		return err
	}
	return f.Close()
}

func (l *Ledger) account(name policy.Account) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.accounts[name]
	if !ok {
		a = &account{name: name, turn: make(chan struct{}, 1)}
		l.accounts[name] = a
	}
	return a
}
