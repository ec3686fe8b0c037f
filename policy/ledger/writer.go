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
	apply func(*book) error // runs in the writer's transaction, and once more if another op of its group failed
	done  func(error)       // runs after the commit, in the order of the ops, before others get to the book; may be nil
	reply chan error        // nil when nobody waits: the op may then be written behind
	err   error             // what apply returned
}

// writer commits ops in groups. Whoever brings an op while nobody is at the book commits it, with what waits there already; what is
// brought meanwhile is for the writer's goroutine, which takes all of it, commits once, and answers only then. So an op that comes alone
// wakes nobody, and the price of a durable commit is shared by all who wait for one.
type writer struct {
	book    *book
	changed func()      // called when another process changed the store
	company atomic.Bool // other gateways run on the store: look at it more often
	flush   time.Duration
	poll    time.Duration
	log     *slog.Logger
	count   func(time.Duration, int) // counts commits; may be nil
	asides  chan func()
	wake    chan struct{} // somebody waits for a commit
	late    chan struct{} // something is to be written behind
	ended   chan struct{}

	mu       sync.Mutex
	left     sync.Cond // somebody has left the book
	taken    bool      // somebody is at the book
	entering int       // those who wait for it
	stopped  bool
	queue    []*op
	awaited  int // ops of the queue that somebody waits for
	running  sync.WaitGroup

	version int64 // of the store's content, moved by other connections' commits
}

// groupLimit bounds one commit, and with it how long its first op waits.
const groupLimit = 512

func newWriter(b *book, o Options) *writer {
	w := &writer{
		book: b, flush: o.Flush, poll: o.Poll, log: o.Log, count: o.Committed, changed: func() {},
		asides: make(chan func()), wake: make(chan struct{}, 1), late: make(chan struct{}, 1), ended: make(chan struct{}),
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
	o := &op{apply: apply, done: done, reply: make(chan error, 1)}
	group, err := w.send(o)
	if err != nil {
		return err
	}
	if group != nil {
		w.commit(group)
		w.leave()
	}
	return <-o.reply
}

// between runs something on the store between two groups, in the writer's goroutine. Only the janitor may call it, which
// ends before the writer does.
func (w *writer) between(run func(*book) error) error {
	reply := make(chan error, 1)
	w.asides <- func() { reply <- run(w.book) }
	return <-reply
}

// behind hands a change over to be written with the next group, or within the flush interval. It waits only while a whole group does.
func (w *writer) behind(apply func(*book) error, done func(error)) error {
	group, err := w.send(&op{apply: apply, done: done})
	if group != nil {
		w.commit(group)
		w.leave()
	}
	return err
}

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
	w.taken = false
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
	return group
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
	pending := false // the flush timer runs
	for {
		select {
		case <-w.ended:
			w.write(true)
			return
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

// commit makes a group durable and answers its ops.
func (w *writer) commit(group []*op) {
	if len(group) == 0 {
		return
	}
	began := time.Now()
	err := w.book.commitGroup(group)
	if w.count != nil && err == nil {
		w.count(time.Since(began), len(group))
	}
	for _, o := range group {
		w.answer(o, err)
	}
}

// answer tells an op its own error, or that of its group.
func (w *writer) answer(o *op, group error) {
	err := o.err
	if err == nil {
		err = group
	}
	if o.done != nil {
		o.done(err)
	}
	if o.reply != nil {
		o.reply <- err
		return
	}
	if err != nil {
		w.log.Error("ledger: a record was not written", "error", err)
	}
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
				failed = true
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
		w.log.Error("ledger: the store cannot be read", "error", err)
		return
	}
	if w.version != 0 && v != w.version {
		w.changed()
	}
	w.version = v
}
