package ledger

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An op is one change of the store. It fails or succeeds alone, but is committed together with others.
type op struct {
	apply func(*book) error // runs in the writer's transaction, and again if another op of its group failed, or the commit
	done  func(error)       // runs after the commit, in the order of the ops, before others get to the book; may be nil
	reply chan error        // nil when nobody waits: the op may then be written behind
	err   error             // what apply returned
	note  *note             // nil: it cannot wait for a store that cannot be written, and fails instead
	late  func()            // runs once it is known to wait for that; may be nil
}

// size is about how much memory an op takes that waits.
func (o *op) size() int64 {
	const fixed = 1024
	if o.note == nil || o.note.Charge == nil {
		return fixed
	}
	return fixed + int64(len(o.note.Charge.Record))
}

// wait answers an op that is written once the store can be.
func (o *op) wait() {
	if o.late != nil {
		o.late()
		o.late = nil
	}
	if o.reply != nil {
		o.reply <- errLate
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

// writer commits ops in groups. Whoever brings an op while nobody is at the book commits it, with what waits there already; what is
// brought meanwhile is for the writer's goroutine, which takes all of it, commits once, and answers only then. So an op that comes alone
// wakes nobody, and the price of a durable commit is shared by all who wait for one.
type writer struct {
	book    *book
	backlog *backlog          // of a gateway; nil for tools
	changed func()            // called when another process changed the store
	renewed func(*book) error // called when the store's file was replaced by another one
	company atomic.Bool       // other gateways run on the store: look at it more often
	flush   time.Duration
	poll    time.Duration
	log     *slog.Logger
	count   func(time.Duration, int) // counts commits; may be nil
	asides  chan func()
	wake    chan struct{} // somebody waits for a commit
	late    chan struct{} // something is to be written behind
	broken  chan struct{} // an outage has begun
	ended   chan struct{}

	mu       sync.Mutex
	left     sync.Cond // somebody has left the book
	taken    bool      // somebody is at the book
	entering int       // those who wait for it
	stopped  bool
	queue    []*op
	atBook   []*op // the group that is being committed
	awaited  int   // ops of the queue that somebody waits for
	running  sync.WaitGroup

	version int64         // of the store's content, moved by other connections' commits
	unread  bool          // the log says that it cannot be read
	pause   time.Duration // between two tries during an outage
	healed  time.Time     // when the last outage ended
	orphan  bool          // the store is another file, and not joined yet
}

// groupLimit bounds one commit, and with it how long its first op waits.
const groupLimit = 512

func newWriter(b *book, o Options) *writer {
	w := &writer{
		book: b, flush: o.Flush, poll: o.Poll, log: o.Log, count: o.Committed, changed: func() {},
		asides: make(chan func()), wake: make(chan struct{}, 1), late: make(chan struct{}, 1), broken: make(chan struct{}, 1), ended: make(chan struct{}),
		renewed: func(*book) error { return nil },
	}
	if o.Gateway {
		w.backlog = &backlog{log: o.Log, now: o.Now, tell: o.Outage}
	}
	w.left.L = &w.mu
	return w
}

func (w *writer) start() {
	w.look()
	w.running.Go(w.run)
}

// stop ends the writer after all that was sent is committed.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	close(w.ended)
	w.running.Wait()
}

// do runs a change and returns when it is durable or has failed. It does not give up before it knows which.
func (w *writer) do(apply func(*book) error, done func(error)) error {
	return w.await(&op{apply: apply, done: done})
}

// await is do, for a change that may be able to wait for the store: the error is errLate then.
func (w *writer) await(o *op) error {
	reply := make(chan error, 1)
	o.reply = reply
	if err := w.hand(o); err != nil {
		return err
	}
	return <-reply
}

// hand gives an op to whoever is to commit it, which may be its sender.
func (w *writer) hand(o *op) error {
	if w.backlog.failed() != nil && w.backlog.add(o) {
		return nil
	}
	group, err := w.send(o)
	if group != nil {
		w.commit(group)
		w.leave()
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

// behind hands a change over to be written with the next group, or within the flush interval. It waits only while a whole group does.
func (w *writer) behind(o *op) error { return w.hand(o) }

// send puts an op into the queue. If its sender is the one who is to commit now, it gets the group, and leaves the book after that.
func (w *writer) send(o *op) (group []*op, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopped && o.reply == nil && w.taken && len(w.queue) >= groupLimit {
		w.left.Wait()
	}
	if w.stopped {
		return nil, ErrClosed
	}
	w.queue = append(w.queue, o)
	free := !w.taken && w.entering == 0 && w.awaited == 0 // nobody is at the book, or was here before
	if o.reply != nil {
		w.awaited++
	}
	if free && (o.reply != nil || len(w.queue) >= groupLimit) {
		w.taken = true
		return w.gather(), nil
	}
	if o.reply == nil && len(w.queue) == 1 {
		signal(w.late)
	}
	return nil, nil
}

// signal lets the writer's goroutine know something, unless it is about to hear of it.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enter waits until nobody is at the book.
func (w *writer) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entering++
	for w.taken {
		w.left.Wait()
	}
	w.entering--
	w.taken = true
}

// leave lets others to the book. For those who wait already the writer's goroutine goes there.
func (w *writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken, w.atBook = false, nil
	w.left.Broadcast()
	if w.awaited > 0 {
		signal(w.wake)
	}
}

// gather takes a group off the queue. w.mu is held, and the book is taken.
func (w *writer) gather() []*op {
	n := min(len(w.queue), groupLimit)
	group := slices.Clone(w.queue[:n])
	for _, o := range group {
		if o.reply != nil {
			w.awaited--
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	w.atBook = group
	return group
}

// keepAll writes to the spill file what is not known to be durable: the queue, and the group at the book, which may still be committed as
// well. It returns how many charges that are, those that wait already included. The program is about to end: nothing is answered.
func (w *writer) keepAll() (charges int, err error) {
	w.mu.Lock()
	ops := append(slices.Clone(w.atBook), w.queue...)
	w.mu.Unlock()
	if w.backlog == nil {
		return 0, nil
	}
	return w.backlog.keepBeside(ops)
}

// write commits what waits: all of it, or what it takes until nobody waits for an answer.
func (w *writer) write(all bool) {
	w.enter()
	defer w.leave()
	for {
		w.mu.Lock()
		if w.awaited == 0 && !all {
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
			w.apart(func() { w.recover() })
			return
		case <-w.broken:
			retry.Reset(w.firstPause())
		case <-retry.C:
			w.apart(func() {
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
			w.apart(w.look)
			poll.Reset(w.pace())
		case run := <-w.asides:
			w.apart(run)
		}
	}
}

// apart runs something while nobody else is at the book.
func (w *writer) apart(run func()) {
	w.enter()
	defer w.leave()
	run()
}

// commit makes a group durable and answers its ops. Those that can wait do so where the store cannot be written.
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
	signal(w.broken)
	if !w.backlog.add(failed...) { // it is closed
		for _, o := range failed {
			w.answer(o, f)
		}
	}
}

// try makes a group durable, and answers the ops that were written and those that are wrong. It returns the others, which failed because
// the store cannot be written, and the cause.
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

// answer tells an op what came of it.
func (w *writer) answer(o *op, err error) {
	if o.reply == nil && err != nil {
		w.log.Error("ledger: a record was not written", "error", err)
	}
	o.answer(err)
}

// commitGroup runs a group's ops in one transaction. They seldom fail, so they are tried together first; if one of several does, each is
// run by itself, which is why an op's apply may run twice. The error is the whole group's; an op's own stays with it.
func (b *book) commitGroup(group []*op) error {
	failed, err := b.together(group)
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

// together runs a group as one. failed is true when an op failed: then none has happened.
func (b *book) together(group []*op) (failed bool, err error) {
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

// apply runs an op in a savepoint. The error is one that spoils the whole transaction; the op's own stays with it.
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

// companyPoll is how often other gateways' wishes are looked for where there are any.
const companyPoll = 50 * time.Millisecond

// pace is how often to look at what other processes did.
func (w *writer) pace() time.Duration {
	if w.company.Load() {
		return min(w.poll, companyPoll)
	}
	return w.poll
}

// look finds out whether another process changed the store since the last look.
func (w *writer) look() {
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
