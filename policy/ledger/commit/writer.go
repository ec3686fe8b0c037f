// Package commit writes the ledger's changes to its store, many in one transaction (group commit). An entry of the charge log is in the log before Append
// returns, and is committed a little later; other changes are committed before Do returns. While the store cannot be written, entries wait in the log and in
// memory, other changes fail, and the store is retried; while the log cannot be written either, or too many entries wait, Failure says so. It does not know
// the changes' meaning: accounts, blocks and holds are the ledger's.
package commit

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

var (
	// ErrClosed says that the ledger is closed.
	ErrClosed = errors.New("the ledger is closed")
	// ErrNotGateway says that a tool, which has no charge log, was asked to reserve or to charge.
	ErrNotGateway = errors.New("only a gateway may reserve money")
)

// Op is one change of the store. It succeeds or fails by itself, but is committed in a group.
type Op struct {
	Apply func() error // runs in the writer's transaction, and again if another op of its group failed, or the commit
	Done  func(error)  // runs after the commit, in the order of the ops, before the next group; may be nil

	Entry *chargelog.Entry // of the charge log; nil for an op that fails while the store cannot be written
	Batch any              // the data that Options.Together needs; nil: the op is applied alone

	err    error          // what Apply returned
	reply  chan error     // nil for an entry of the charge log: no sender waits for it
	span   chargelog.Span // of the entry
	logged bool           // the charge log has the entry
	size   int64          // approximate memory, in bytes
}

// answer ends an op.
func (o *Op) answer(err error) {
	if o.Done != nil {
		o.Done(err)
	}
	if o.reply != nil {
		o.reply <- err
	}
}

// Options of a writer. The functions after Log are called with exclusive use of the book; each may be nil.
type Options struct {
	Gateway    bool                                     // there is a charge log; without one Append fails
	Charges    chargelog.Options                        // of the charge log; the writer sets Trouble
	MaxBacklog int64                                    // bytes of entries that may wait for the store; zero means 64 MiB
	Flush      time.Duration                            // how long an entry waits for others before it is committed; zero means 100 ms
	Poll       time.Duration                            // interval of checking for other processes' commits; zero means 250 ms
	Committed  func(took time.Duration, operations int) // called after every commit; may be nil
	Outage     func(Outage)                             // called when Failure begins, and when it ends; may be nil
	Now        func() time.Time                         // nil means time.Now
	Log        *slog.Logger                             // nil means slog.Default

	// Together applies some of the first ops of a group as one, and returns how many: none where they cannot be. After an error the ops are applied one by one.
	Together func(ops []*Op) (applied int, err error)
	Changed  func()                        // another process has changed the store
	Replaced func() error                  // the store's file was replaced: the gateway is no instance of the new one yet
	Expelled func() error                  // others considered this gateway dead
	Refused  func(*chargelog.Entry, error) // the store refuses an entry
}

func (o Options) withDefaults() Options {
	o.MaxBacklog = cmp.Or(o.MaxBacklog, 64<<20)
	o.Flush = cmp.Or(o.Flush, 100*time.Millisecond)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Writer commits ops in groups. Entries of the charge log are committed by the writer's goroutine, many together. The sender of another op commits it
// itself if the book is free, together with the queue, so that a single one needs no goroutine switch; those that arrive meanwhile are committed
// in one group. Safe for concurrent use, except where a method says otherwise.
type Writer struct {
	book    *store.Book
	tally   *usage.Tally
	o       Options
	backlog *backlog    // nil for tools
	shared  atomic.Bool // other gateways use the store: poll more often

	exclusives  chan func()
	wake        chan struct{} // an op waits for a commit, or a whole group is queued
	queued      chan struct{} // entries are queued
	outageBegan chan struct{}
	ended       chan struct{}

	mu         sync.Mutex
	freed      sync.Cond // the book was freed
	busy       bool      // the book is in use
	entering   int       // number of waiters for the book
	stopped    bool
	queue      []*Op
	committing []*Op // the group that is being committed
	waiters    int   // ops in the queue whose senders wait
	running    sync.WaitGroup

	version      int64         // changes when other connections commit
	unread       bool          // logged that it cannot be read
	pause        time.Duration // between retries during an outage
	lastRecovery time.Time     // end of the last outage
	replaced     bool          // the store's file was replaced and is not joined yet
}

// groupLimit is the maximum number of ops in one commit, which limits the latency of the first one.
const groupLimit = 512

// New returns a writer to a book, which it does not close. What a change adds to the tally is committed with it.
func New(b *store.Book, t *usage.Tally, o Options) *Writer {
	w := &Writer{
		book: b, tally: t, o: o.withDefaults(),
		exclusives: make(chan func()), wake: make(chan struct{}, 1), queued: make(chan struct{}, 1), outageBegan: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if o.Gateway {
		w.backlog = newBacklog(w, &w.o)
	}
	w.freed.L = &w.mu
	return w
}

// Start starts the writer's goroutine, which commits entries and looks for other processes' commits.
func (w *Writer) Start() {
	w.PollChanges()
	w.running.Go(w.run)
}

// Stop ends the writer after all sent ops are committed. Later ones fail with ErrClosed.
func (w *Writer) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	close(w.ended)
	w.running.Wait()
}

// Do runs a change and returns once it is durable or has failed; done, which may be nil, is called as Op.Done. The error is that of the change, ErrClosed, an
// *UnwritableError, or the store's.
func (w *Writer) Do(apply func() error, done func(error)) error {
	if f := w.StoreFailure(); f != nil {
		return f
	}
	reply := make(chan error, 1)
	group, err := w.send(&Op{Apply: apply, Done: done, reply: reply})
	if group != nil {
		w.Commit(group)
		w.exit()
	}
	if err != nil {
		return err
	}
	return <-reply
}

// Between runs a function between two groups, in the writer's goroutine, with exclusive use of the book. It must not be called after Stop.
func (w *Writer) Between(run func() error) error {
	reply := make(chan error, 1)
	w.exclusives <- func() { reply <- run() }
	return <-reply
}

// SetShared sets whether other gateways use the store: then their changes are looked for more often.
func (w *Writer) SetShared(shared bool) { w.shared.Store(shared) }

// send queues an op that its sender waits for. If the sender is to commit now, it returns the group; the sender must exit the book afterwards.
func (w *Writer) send(o *Op) (group []*Op, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil, ErrClosed
	}
	w.queue = append(w.queue, o)
	free := !w.busy && w.entering == 0 && w.waiters == 0 && len(w.queue) <= groupLimit // the book is not used, and no one waits for it
	w.waiters++
	if free {
		w.busy = true
		return w.gather(), nil
	}
	if !w.busy {
		signal(w.wake)
	}
	return nil, nil
}

// enqueue queues an entry of the charge log, which is committed within the flush interval.
func (w *Writer) enqueue(o *Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return ErrClosed
	}
	w.queue = append(w.queue, o)
	switch n := len(w.queue); {
	case n >= groupLimit && !w.busy:
		signal(w.wake)
	case n == 1:
		signal(w.queued)
	}
	return nil
}

// signal wakes the writer's goroutine without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enter waits until the book is free, and takes it.
func (w *Writer) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entering++
	for w.busy {
		w.freed.Wait()
	}
	w.entering--
	w.busy = true
}

// exit frees the book. If senders wait already, the writer's goroutine commits their ops.
func (w *Writer) exit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	w.freed.Broadcast()
	if w.waiters > 0 || len(w.queue) >= groupLimit {
		signal(w.wake)
	}
}

// exclusive runs a function with exclusive use of the book.
func (w *Writer) exclusive(run func()) {
	w.enter()
	defer w.exit()
	run()
}

func (w *Writer) run() {
	poll := time.NewTicker(w.o.Poll)
	defer poll.Stop()
	flush := time.NewTimer(w.o.Flush)
	flush.Stop()
	defer flush.Stop()
	retry := time.NewTimer(w.o.Flush)
	retry.Stop()
	defer retry.Stop()
	pending := false // the flush timer runs
	for {
		select {
		case <-w.ended:
			w.write(true)
			w.exclusive(func() { w.recover() })
			return
		case <-w.outageBegan:
			retry.Reset(w.firstPause())
		case <-retry.C:
			w.exclusive(func() {
				if !w.recover() {
					retry.Reset(w.nextPause())
				}
			})
		case <-w.wake:
			w.write(false)
		case <-w.queued:
			if !pending {
				pending = true
				flush.Reset(w.o.Flush)
			}
		case <-flush.C:
			pending = false
			w.write(true)
		case <-poll.C:
			w.exclusive(w.PollChanges)
			poll.Reset(w.pollInterval())
		case run := <-w.exclusives:
			w.exclusive(run)
		}
	}
}

// sharedPoll is the maximum interval of polling where other gateways use the store.
const sharedPoll = 50 * time.Millisecond

// pollInterval is the interval of looking for other processes' commits.
func (w *Writer) pollInterval() time.Duration {
	if w.shared.Load() {
		return min(w.o.Poll, sharedPoll)
	}
	return w.o.Poll
}

// PollChanges finds out whether another process changed the store since the last call. The writer calls it itself; others may within Between.
func (w *Writer) PollChanges() {
	v, err := w.book.Version()
	if err != nil && store.IsLost(err) && w.backlog != nil {
		w.backlog.beginStoreOutage(err)
		return
	}
	if err != nil {
		if !w.unread {
			w.unread = true
			w.o.Log.Error("ledger: the store cannot be read", "error", err)
		}
		return
	}
	w.unread = false
	if w.version != 0 && v != w.version {
		w.changed()
	}
	w.version = v
}

func (w *Writer) changed() {
	if w.o.Changed != nil {
		w.o.Changed()
	}
}
