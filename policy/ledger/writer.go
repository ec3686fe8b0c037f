package ledger

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// An op is one change of the store. It fails or succeeds alone, but is committed together with others.
type op struct {
	apply func(*book) error // runs in the writer's transaction, and once more if another op of its group failed
	done  func(error)       // runs after the commit, in the order of the ops, in the writer's goroutine; may be nil
	reply chan error        // nil when nobody waits: the op may then be written behind
	err   error             // what apply returned
}

// writer commits ops in groups: one goroutine takes what has queued up while it wrote the last group, runs it,
// commits once, and answers only then. So the price of a durable commit is shared by all who wait for one.
type writer struct {
	book    *book
	changed func()      // called when another process changed the store
	company atomic.Bool // other gateways run on the store: look at it more often
	flush   time.Duration
	poll    time.Duration
	log     *slog.Logger
	count   func(time.Duration, int) // counts commits; may be nil
	ops     chan *op
	asides  chan func()

	mu      sync.Mutex
	stopped bool
	senders sync.WaitGroup // those who passed the check of stopped and have not sent yet
	running sync.WaitGroup

	version int64 // of the store's content, moved by other connections' commits
}

// groupLimit bounds one commit, and with it how long its first op waits.
const groupLimit = 512

func newWriter(b *book, o Options) *writer {
	return &writer{book: b, flush: o.Flush, poll: o.Poll, log: o.Log, count: o.Committed, ops: make(chan *op, groupLimit), asides: make(chan func()), changed: func() {}}
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
	w.senders.Wait()
	close(w.ops)
	w.running.Wait()
}

// do runs a change and returns when it is durable or has failed. It does not give up before it knows which.
func (w *writer) do(apply func(*book) error, done func(error)) error {
	o := &op{apply: apply, done: done, reply: make(chan error, 1)}
	if err := w.send(o); err != nil {
		return err
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

// behind hands a change over to be written with the next group, or within the flush interval.
func (w *writer) behind(apply func(*book) error, done func(error)) error {
	return w.send(&op{apply: apply, done: done})
}

func (w *writer) send(o *op) error {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return ErrClosed
	}
	w.senders.Add(1)
	w.mu.Unlock()
	defer w.senders.Done()
	w.ops <- o
	return nil
}

func (w *writer) run() {
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	flush := time.NewTimer(w.flush)
	flush.Stop()
	defer flush.Stop()
	var group []*op
	for {
		select {
		case o, ok := <-w.ops:
			if !ok {
				w.commit(group)
				return
			}
			group = append(group, o)
			if o.reply == nil && len(group) < groupLimit {
				if len(group) == 1 {
					flush.Reset(w.flush)
				}
				continue
			}
			group = w.gather(group)
		case <-flush.C:
		case <-poll.C:
			w.look()
			poll.Reset(w.pace())
			continue
		case run := <-w.asides:
			run()
			continue
		}
		flush.Stop()
		w.commit(group)
		clear(group)
		group = group[:0]
	}
}

// gather adds what waits in the queue.
func (w *writer) gather(group []*op) []*op {
	for len(group) < groupLimit {
		select {
		case o, ok := <-w.ops:
			if !ok {
				return group
			}
			group = append(group, o)
		default:
			return group
		}
	}
	return group
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
