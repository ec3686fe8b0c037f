package ledger

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An op is one change of the store. It succeeds or fails by itself, but is committed in a group.
type op struct {
	apply      func(*book) error // runs in the writer's transaction, and again if another op of its group failed, or the commit
	done       func(error)       // runs after the commit, in the order of the ops, before the next group; may be nil
	reply      chan error        // nil for an asynchronous op
	err        error             // what apply returned
	note       *note             // for deferral during an outage; nil if the op cannot be deferred and fails
	onDeferred func()            // runs once it is deferred; may be nil
}

// size is the approximate memory of a deferred op.
func (o *op) size() int64 {
	const fixed = 1024
	if o.note == nil || o.note.Charge == nil {
		return fixed
	}
	return fixed + int64(len(o.note.Charge.Record))
}

// wait answers a deferred op.
func (o *op) wait() {
	if o.onDeferred != nil {
		o.onDeferred()
		o.onDeferred = nil
	}
	if o.reply != nil {
		o.reply <- errDeferred
		o.reply = nil
	}
}

// answer ends an op.
func (o *op) answer(err error) {
	if o.done != nil {
		o.done(err)
	}
	if o.reply != nil {
		o.reply <- err
	}
}

// writer commits ops in groups. A sender that finds the book free commits its op itself, together with the queue. Ops that arrive meanwhile are
// committed by the writer's goroutine in one group. So a single op needs no goroutine switch, and concurrent ops share the cost of a durable
// commit.
type writer struct {
	book        *book
	backlog     *backlog          // nil for tools
	changed     func()            // called after another process changed the store
	renewed     func(*book) error // called after the store's file was replaced
	shared      atomic.Bool       // other gateways use the store: poll more often
	flush       time.Duration
	poll        time.Duration
	log         *slog.Logger
	count       func(time.Duration, int) // counts commits; may be nil
	asides      chan func()
	wake        chan struct{} // an op waits for a commit
	late        chan struct{} // there are asynchronous ops
	outageBegan chan struct{} // an outage has started
	ended       chan struct{}

	mu       sync.Mutex
	freed    sync.Cond // the book was freed
	busy     bool      // the book is in use
	entering int       // number of waiters for the book
	stopped  bool
	queue    []*op
	atBook   []*op // the group that is being committed
	waiters  int   // synchronous ops in the queue
	running  sync.WaitGroup

	version      int64         // SQLite's data version, incremented by other connections' commits
	unread       bool          // logged that it cannot be read
	pause        time.Duration // between retries during an outage
	lastRecovery time.Time     // end of the last outage
	replaced     bool          // the store's file was replaced and is not joined yet
}

// groupLimit is the most ops in one commit, which limits the latency of the first one.
const groupLimit = 512

func newWriter(b *book, o Options) *writer {
	w := &writer{
		book: b, flush: o.Flush, poll: o.Poll, log: o.Log, count: o.Committed, changed: func() {},
		asides: make(chan func()), wake: make(chan struct{}, 1), late: make(chan struct{}, 1), outageBegan: make(chan struct{}, 1), ended: make(chan struct{}),
		renewed: func(*book) error { return nil },
	}
	if o.Gateway {
		w.backlog = &backlog{log: o.Log, now: o.Now, onOutage: o.Outage}
	}
	w.freed.L = &w.mu
	return w
}

func (w *writer) start() {
	w.pollChanges()
	w.running.Go(w.run)
}

// stop ends the writer after all sent ops are committed.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	close(w.ended)
	w.running.Wait()
}

// do runs a change and returns once it is durable or has failed.
func (w *writer) do(apply func(*book) error, done func(error)) error {
	return w.await(&op{apply: apply, done: done})
}

// await is do for a change that may be deferred: then the error is errDeferred.
func (w *writer) await(o *op) error {
	reply := make(chan error, 1)
	o.reply = reply
	if err := w.submit(o); err != nil {
		return err
	}
	return <-reply
}

// submit gives an op to whoever is to commit it, which may be its sender.
func (w *writer) submit(o *op) error {
	if w.backlog.failed() != nil && w.backlog.add(o) {
		return nil
	}
	group, err := w.send(o)
	if group != nil {
		w.commit(group)
		w.exit()
	}
	return err
}

// between runs something on the store between two groups, in the writer's goroutine. Only the janitor may call it, which
// ends before the writer does.
func (w *writer) between(run func(*book) error) error {
	reply := make(chan error, 1)
	w.asides <- func() { reply <- run(w.book) }
	return <-reply
}

// enqueue submits an asynchronous change, which is written with the next group or within the flush interval. It only blocks while a whole group is
// queued.
func (w *writer) enqueue(o *op) error { return w.submit(o) }

// send queues an op. If the sender is to commit now, it returns the group; the sender must exit the book afterwards.
func (w *writer) send(o *op) (group []*op, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopped && o.reply == nil && w.busy && len(w.queue) >= groupLimit {
		w.freed.Wait()
	}
	if w.stopped {
		return nil, ErrClosed
	}
	w.queue = append(w.queue, o)
	free := !w.busy && w.entering == 0 && w.waiters == 0 // the book is free and no one waits for it
	if o.reply != nil {
		w.waiters++
	}
	if free && (o.reply != nil || len(w.queue) >= groupLimit) {
		w.busy = true
		return w.gather(), nil
	}
	if o.reply == nil && len(w.queue) == 1 {
		signal(w.late)
	}
	return nil, nil
}

// signal wakes the writer's goroutine without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enter waits until the book is free.
func (w *writer) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entering++
	for w.busy {
		w.freed.Wait()
	}
	w.entering--
	w.busy = true
}

// exit lets others to the book. For those who wait already the writer's goroutine goes there.
func (w *writer) exit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.atBook = false, nil
	w.freed.Broadcast()
	if w.waiters > 0 {
		signal(w.wake)
	}
}

// gather takes a group off the queue. w.mu is locked and the book taken.
func (w *writer) gather() []*op {
	n := min(len(w.queue), groupLimit)
	group := slices.Clone(w.queue[:n])
	for _, o := range group {
		if o.reply != nil {
			w.waiters--
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	w.atBook = group
	return group
}

// spillAll writes to the spill file what is not known to be durable: the queue, and the group at the book, which may still be committed as
// well. It returns how many charges that are, those that wait already included. The program is about to end: nothing is answered.
func (w *writer) spillAll() (charges int, err error) {
	w.mu.Lock()
	ops := append(slices.Clone(w.atBook), w.queue...)
	w.mu.Unlock()
	if w.backlog == nil {
		return 0, nil
	}
	return w.backlog.spillExtra(ops)
}

// write commits the queue: all of it, or until there are no synchronous ops.
func (w *writer) write(all bool) {
	w.enter()
	defer w.exit()
	for {
		w.mu.Lock()
		if w.waiters == 0 && !all {
			w.mu.Unlock()
			return
		}
		group := w.gather()
		w.mu.Unlock()
		if len(group) == 0 {
			return
		}
		w.commit(group)
	}
}

func (w *writer) run() {
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	flush := time.NewTimer(w.flush)
	flush.Stop()
	defer flush.Stop()
	retry := time.NewTimer(w.flush)
	retry.Stop()
	defer retry.Stop()
	pending := false // the flush timer runs
	for {
		select {
		case <-w.ended:
			w.write(true)
			w.exclusive(func() { w.tryRecover() })
			return
		case <-w.outageBegan:
			retry.Reset(w.firstPause())
		case <-retry.C:
			w.exclusive(func() {
				if !w.tryRecover() {
					retry.Reset(w.nextPause())
				}
			})
		case <-w.wake:
			w.write(false)
		case <-w.late:
			if !pending {
				pending = true
				flush.Reset(w.flush)
			}
		case <-flush.C:
			pending = false
			w.write(true)
		case <-poll.C:
			w.exclusive(w.pollChanges)
			poll.Reset(w.pollInterval())
		case run := <-w.asides:
			w.exclusive(run)
		}
	}
}

// exclusive runs something while nobody else is at the book.
func (w *writer) exclusive(run func()) {
	w.enter()
	defer w.exit()
	run()
}

// commit commits a group and answers its ops. During an outage ops are deferred if they can be.
func (w *writer) commit(group []*op) {
	if len(group) == 0 {
		return
	}
	if w.backlog.failed() != nil && w.backlog.add(group...) {
		return
	}
	failed, cause := w.try(group)
	if len(failed) == 0 {
		return
	}
	if w.backlog == nil {
		for _, o := range failed {
			w.answer(o, cause)
		}
		return
	}
	f := w.backlog.begin(cause)
	signal(w.outageBegan)
	if !w.backlog.add(failed...) { // it is closed
		for _, o := range failed {
			w.answer(o, f)
		}
	}
}

// try commits a group and answers the ops that were written or are invalid. It returns those that failed because the store cannot be written, and
// the cause.
func (w *writer) try(group []*op) (failed []*op, cause error) {
	for _, o := range group {
		o.err = nil
	}
	began := time.Now()
	err := w.book.commitGroup(group)
	if w.count != nil && err == nil {
		w.count(time.Since(began), len(group))
	}
	for _, o := range group {
		why := err
		if why == nil {
			if _, out := outageOf(o.err); out {
				why = o.err
			}
		}
		if why == nil || o.err != nil && !isOutage(o.err) {
			w.answer(o, o.err)
			continue
		}
		failed, cause = append(failed, o), why
	}
	return failed, cause
}

// answer sends an op's result.
func (w *writer) answer(o *op, err error) {
	if o.reply == nil && err != nil {
		w.log.Error("ledger: a record was not written", "error", err)
	}
	o.answer(err)
}

// commitGroup runs a group's ops in one transaction, first together; if one of several fails, each in a savepoint, so an op's apply may run twice.
// The error concerns the whole group; an op's own error is stored in it.
func (b *book) commitGroup(group []*op) error {
	failed, err := b.runAll(group)
	if !failed {
		return err
	}
	if len(group) == 1 {
		return nil // it is the op's own
	}
	return b.atomically(func(b *book) error {
		for _, o := range group {
			if err := b.apply(o); err != nil {
				return err
			}
		}
		return nil
	})
}

// runAll runs a group as one. failed is true when an op failed: then none has happened.
func (b *book) runAll(group []*op) (failed bool, err error) {
	err = b.atomically(func(b *book) error {
		for _, o := range group {
			if o.err = o.apply(b); o.err != nil {
				failed = !isOutage(o.err)
				return o.err
			}
		}
		return nil
	})
	return failed, err
}

// apply runs an op in a savepoint. The error concerns the whole transaction; the op's own error is stored in it.
func (b *book) apply(o *op) error {
	if err := b.do("SAVEPOINT op"); err != nil {
		return err
	}
	if o.err = o.apply(b); o.err == nil {
		return b.do("RELEASE op")
	}
	if err := b.do("ROLLBACK TO op", "RELEASE op"); err != nil {
		return fmt.Errorf("%w, after %w", err, o.err)
	}
	return nil
}

// sharedPoll is how often other gateways' wishes are looked for where there are any.
const sharedPoll = 50 * time.Millisecond

// pollInterval is how often to look at what other processes did.
func (w *writer) pollInterval() time.Duration {
	if w.shared.Load() {
		return min(w.poll, sharedPoll)
	}
	return w.poll
}

// pollChanges finds out whether another process changed the store since the last look.
func (w *writer) pollChanges() {
	var v int64
	if err := w.book.row("PRAGMA data_version").Scan(&v); err != nil {
		if !w.unread {
			w.unread = true
			w.log.Error("ledger: the store cannot be read", "error", err)
		}
		return
	}
	w.unread = false
	if w.version != 0 && v != w.version {
		w.changed()
	}
	w.version = v
}
