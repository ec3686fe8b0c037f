package ledger

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// An op is one change of the store. It succeeds or fails by itself, but is committed in a group.
type op struct {
	apply func(*book) error // runs in the writer's transaction, and again if another op of its group failed, or the commit
	done  func(error)       // runs after the commit, in the order of the ops, before the next group; may be nil
	reply chan error        // nil for an entry of the charge log, which nobody waits for
	err   error             // what apply returned

	entry   *chargelog.Entry // nil for an op that fails while the store cannot be written
	payer   *account         // of a prepaid charge of this gateway
	receipt *Receipt         // nil for all but charges of this gateway: what apply sets

	span   chargelog.Span // of the entry
	logged bool           // the charge log has the entry
	size   int64          // approximate memory
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

// writer commits ops in groups. Entries of the charge log are committed by the writer's goroutine, many at once. The sender of another op commits it
// itself if the book is free, together with the queue, so that a single one needs no goroutine switch; those that arrive meanwhile are committed
// in one group.
type writer struct {
	book        *book
	backlog     *backlog          // nil for tools
	changed     func()            // called after another process changed the store
	renewed     func(*book) error // called after the store's file was replaced
	expelled    func(*book) error // called after others took this gateway for dead
	refused     func(*op)         // called for an entry that the store refuses
	shared      atomic.Bool       // other gateways use the store: poll more often
	flush       time.Duration
	poll        time.Duration
	log         *slog.Logger
	count       func(time.Duration, int) // counts commits; may be nil
	asides      chan func()
	wake        chan struct{} // an op waits for a commit, or a whole group is queued
	late        chan struct{} // entries are queued
	outageBegan chan struct{}
	ended       chan struct{}

	mu       sync.Mutex
	freed    sync.Cond // the book was freed
	busy     bool      // the book is in use
	entering int       // number of waiters for the book
	stopped  bool
	queue    []*op
	atBook   []*op // the group that is being committed
	waiters  int   // ops in the queue that somebody waits for
	running  sync.WaitGroup

	version      int64         // changes when other connections commit
	unread       bool          // logged that it cannot be read
	pause        time.Duration // between retries during an outage
	lastRecovery time.Time     // end of the last outage
	replaced     bool          // the store's file was replaced and is not joined yet
}

// groupLimit is the most ops in one commit, which limits the latency of the first one.
const groupLimit = 512

func newWriter(b *book, o Options) *writer {
	w := &writer{
		book: b, flush: o.Flush, poll: o.Poll, log: o.Log, count: o.Committed, changed: func() {}, refused: func(*op) {},
		asides: make(chan func()), wake: make(chan struct{}, 1), late: make(chan struct{}, 1), outageBegan: make(chan struct{}, 1), ended: make(chan struct{}),
		renewed: func(*book) error { return nil }, expelled: func(*book) error { return nil },
	}
	if o.Gateway {
		w.backlog = newBacklog(w, o)
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
	if f := w.backlog.storeFailure(); f != nil {
		return f
	}
	reply := make(chan error, 1)
	group, err := w.send(&op{apply: apply, done: done, reply: reply})
	if group != nil {
		w.commit(group)
		w.exit()
	}
	if err != nil {
		return err
	}
	return <-reply
}

// between runs something on the store between two groups, in the writer's goroutine. Only the janitor may call it, which
// ends before the writer does.
func (w *writer) between(run func(*book) error) error {
	reply := make(chan error, 1)
	w.asides <- func() { reply <- run(w.book) }
	return <-reply
}

// send queues an op that its sender waits for. If the sender is to commit now, it returns the group; the sender must exit the book afterwards.
func (w *writer) send(o *op) (group []*op, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil, ErrClosed
	}
	w.queue = append(w.queue, o)
	free := !w.busy && w.entering == 0 && w.waiters == 0 && len(w.queue) <= groupLimit // nobody is at the book or waits for it
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
func (w *writer) enqueue(o *op) error {
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
		signal(w.late)
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
	if w.waiters > 0 || len(w.queue) >= groupLimit {
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

// write commits the queue: all of it, or until there are no synchronous ops.
func (w *writer) write(all bool) {
	w.enter()
	defer w.exit()
	for {
		w.mu.Lock()
		if w.waiters == 0 && len(w.queue) < groupLimit && !all {
			w.mu.Unlock()
			return
		}
		group := w.gather()
		w.mu.Unlock()
		if len(group) == 0 || !w.commit(group) {
			return
		}
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

// commit commits a group and answers its ops. While the store cannot be written, entries stay in the queue and other ops fail; ok is false then.
func (w *writer) commit(group []*op) (ok bool) {
	if len(group) == 0 {
		return true
	}
	if f := w.backlog.storeFailure(); f != nil {
		w.putBack(group, f)
		return false
	}
	failed, cause := w.try(group)
	if len(failed) == 0 {
		w.applied(group)
		return true
	}
	if w.backlog == nil {
		for _, o := range failed {
			w.answer(o, cause)
		}
		return true
	}
	w.backlog.beginStore(cause)
	w.putBack(failed, w.backlog.failureOf(cause))
	w.applied(difference(group, failed))
	return false
}

// putBack puts the entries of ops at the head of the queue, in order, and fails the others.
func (w *writer) putBack(ops []*op, f error) {
	var entries []*op
	for _, o := range ops {
		if o.entry != nil {
			entries = append(entries, o)
			continue
		}
		w.answer(o, f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(entries, w.queue...)
	w.atBook = nil
}

// applied tells the charge log and the backlog which entries are in the store.
func (w *writer) applied(ops []*op) {
	if w.backlog == nil {
		return
	}
	w.mu.Lock()
	w.atBook = nil
	var d dropped
	for _, o := range ops {
		d.add(o)
	}
	for _, o := range w.queue { // it is in the log's order, and begins behind what was applied
		if o.logged {
			d.end = min(d.end, o.span.Start)
			break
		}
	}
	w.mu.Unlock()
	w.backlog.drop(d)
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
	o.err = err
	if o.entry != nil && err != nil {
		w.refused(o)
	}
	o.answer(err)
}

// commitGroup runs a group's ops in one transaction, first together; if that fails for other reasons than an outage, each in a savepoint, so an op's
// apply may run twice.
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

// runAll runs a group as one. failed is true when ops failed by themselves: then none has happened.
func (b *book) runAll(group []*op) (failed bool, err error) {
	err = b.atomically(func(b *book) error {
		for left := group; len(left) > 0; {
			done, err := b.runSome(left)
			if err != nil {
				failed = !isOutage(err)
				return err
			}
			left = left[done:]
		}
		return nil
	})
	return failed, err
}

// runSome runs the first ops of a group, and returns how many.
func (b *book) runSome(ops []*op) (done int, err error) {
	if n := plain(ops); n >= batchLeast {
		return n, b.applyTogether(ops[:n])
	}
	o := ops[0]
	o.err = o.apply(b)
	return 1, o.err
}

// apply runs an op in a savepoint. The error concerns the whole transaction; the op's own error is stored in it.
func (b *book) apply(o *op) error {
	if err := b.Do("SAVEPOINT op"); err != nil {
		return err
	}
	if o.err = o.apply(b); o.err == nil {
		return b.Do("RELEASE op")
	}
	if err := b.Do("ROLLBACK TO op", "RELEASE op"); err != nil {
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
	v, err := w.book.Version()
	if err != nil && store.IsLost(err) && w.backlog != nil {
		w.backlog.beginStore(err)
		return
	}
	if err != nil {
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
