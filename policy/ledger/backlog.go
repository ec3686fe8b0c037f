package ledger

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy/ledger/chargelog"
)

// Limits of entries that the store does not have. At half of them the gateway takes no new requests that cost money, so that those in flight have
// room.
const (
	backlogOps   = 1 << 15
	backlogBytes = 64 << 20
)

// backlog is the part of the writer's queue that is in the charge log, or is to be: the charges and resources that the store does not have.
type backlog struct {
	writer   *writer
	log      *slog.Logger
	now      func() time.Time
	options  chargelog.Options
	onOutage func(Outage) // called at the start and end of an outage

	store   atomic.Pointer[UnwritableError] // why the store cannot be written; nil if it can
	failure atomic.Pointer[UnwritableError] // why charges cannot be relied on to outlive the process, or are too many; nil if they do

	logging sync.Mutex // for appends: the queue is in the log's order
	charges *chargelog.Log

	mu      sync.Mutex
	ops     int
	bytes   int64
	written int // since the start of the outage
}

func newBacklog(w *writer, o Options) *backlog {
	l := &backlog{writer: w, log: o.Log, now: o.Now, onOutage: o.Outage, options: o.charges}
	l.options.Delay = o.Sync
	l.options.Trouble = l.begin
	return l
}

// storeFailure is why the store cannot be written; nil if it can. Tools have no backlog: they find out.
func (l *backlog) storeFailure() error {
	if l == nil {
		return nil
	}
	if f := l.store.Load(); f != nil { // avoid a non-nil error with a nil pointer
		return f
	}
	return nil
}

// failureOf is the error for what has failed.
func (l *backlog) failureOf(cause error) *UnwritableError {
	return &UnwritableError{Reason: reasonOf(cause), Since: l.now(), cause: cause}
}

// beginStore notes that the store cannot be written.
func (l *backlog) beginStore(cause error) {
	f := l.failureOf(cause)
	if !l.store.CompareAndSwap(nil, f) {
		return
	}
	l.log.Warn("ledger: the store cannot be written: charges are in the charge log until it can be", "reason", f.Reason, "error", cause)
	signal(l.writer.outageBegan)
}

// endStore notes that the store can be written.
func (l *backlog) endStore() {
	if f := l.store.Swap(nil); f != nil {
		l.log.Info("ledger: the store is written again", "lasted", l.now().Sub(f.Since).String(), "reason", f.Reason)
	}
}

// begin starts an outage: nothing that costs money is served until it ends.
func (l *backlog) begin(cause error) {
	f := l.failureOf(cause)
	if !l.failure.CompareAndSwap(nil, f) {
		return
	}
	l.mu.Lock()
	l.written = 0
	l.mu.Unlock()
	l.log.Error("the ledger cannot be written: nothing that costs money is served until it can be, and charges of requests under way wait",
		"reason", f.Reason, "error", cause)
	l.onOutage(Outage{Err: f})
	signal(l.writer.outageBegan)
}

// end ends the outage.
func (l *backlog) end() {
	f := l.failure.Swap(nil)
	if f == nil {
		return
	}
	l.mu.Lock()
	o := Outage{Err: f, Ended: true, Lasted: l.now().Sub(f.Since), Written: l.written}
	l.mu.Unlock()
	l.log.Info("the ledger is written again", "lasted", o.Lasted.String(), "written", o.Written, "reason", f.Reason)
	l.onOutage(o)
}

// isAbove reports whether more waits than a part of the limits.
func (l *backlog) isAbove(part int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ops >= backlogOps/part || l.bytes >= backlogBytes/int64(part)
}

// append writes an entry to the charge log and queues it for the store. If the log does not take it, it is in the queue alone, and an outage
// begins. The error is ErrClosed, or an *UnwritableError if there are too many.
func (w *writer) append(o *op) error {
	l := w.backlog
	if l == nil {
		return ErrNotGateway
	}
	const fixed = 1024
	o.size = fixed
	if o.entry.Charge != nil {
		o.size += int64(len(o.entry.Charge.Record))
	}
	if l.isAbove(1) {
		l.begin(errBacklog)
		return l.failureOf(errBacklog)
	}
	if err := l.append(o); err != nil {
		return err
	}
	if l.isAbove(2) {
		l.begin(errBacklog)
	}
	return nil
}

func (l *backlog) append(o *op) error {
	l.logging.Lock()
	defer l.logging.Unlock()
	var err error
	o.span, err = l.charges.Append(o.entry)
	o.logged = err == nil
	if err := l.writer.enqueue(o); err != nil {
		return err
	}
	if err != nil {
		l.begin(err)
	}
	l.mu.Lock()
	l.ops++
	l.bytes += o.size
	l.mu.Unlock()
	return nil
}

// waitSynced returns once an entry is on disk: in the log, or in the queue alone, if an outage has begun.
func (w *writer) waitSynced(o *op) {
	w.mu.Lock()
	logged, end := o.logged, o.span.End
	w.mu.Unlock()
	if !logged {
		return
	}
	if err := w.backlog.current().WaitSynced(end); err != nil {
		w.backlog.begin(err)
	}
}

// dropped are entries that are in the store.
type dropped struct {
	ops   int
	bytes int64
	end   chargelog.Position // of the last one in the log
}

func (d *dropped) add(o *op) {
	if o.entry == nil {
		return
	}
	d.ops++
	d.bytes += o.size
	if o.logged {
		d.end = max(d.end, o.span.End)
	}
}

// drop removes entries that are in the store.
func (l *backlog) drop(d dropped) {
	if d.ops == 0 {
		return
	}
	l.mu.Lock()
	l.ops -= d.ops
	l.bytes -= d.bytes
	l.written += d.ops
	l.mu.Unlock()
	l.current().Applied(d.end)
}

// current is the charge log.
func (l *backlog) current() *chargelog.Log {
	l.logging.Lock()
	defer l.logging.Unlock()
	return l.charges
}

// place gives the charge log the name of the instance. It makes a new one if there is none, or for another store: applied entries of the
// old one are not there.
func (l *backlog) place(store string, instance int64, another bool) error {
	l.logging.Lock()
	defer l.logging.Unlock()
	prefix := chargelog.PrefixOf(store, instance)
	before := l.charges
	if before != nil && !another && before.IsThere() && before.Rename(prefix) == nil {
		return nil
	}
	next, err := chargelog.Create(prefix, l.options)
	if err != nil {
		return err
	}
	l.charges = next
	if err := errors.Join(l.repeat(0), next.Sync()); err != nil || before == nil {
		return err
	}
	return before.Remove()
}

// secure writes to the log what it does not have for sure, and returns nil if it can be relied on.
func (l *backlog) secure() error {
	l.logging.Lock()
	defer l.logging.Unlock()
	if err := l.repeat(l.charges.Synced()); err != nil {
		return err
	}
	return l.charges.Check()
}

// repeat appends all entries again from the first one on that is not in the log, or behind what is on disk for sure: an entry that is there twice is
// applied once. l.logging is locked.
func (l *backlog) repeat(synced chargelog.Position) error {
	w := l.writer
	repeating := false
	for _, o := range w.unapplied() {
		w.mu.Lock()
		repeating = repeating || !o.logged || o.span.End > synced
		w.mu.Unlock()
		if !repeating {
			continue
		}
		span, err := l.charges.Append(o.entry)
		w.mu.Lock()
		o.span, o.logged = span, err == nil
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// unapplied are the ops with entries that are not in the store for sure.
func (w *writer) unapplied() (ops []*op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, group := range [][]*op{w.atBook, w.queue} {
		for _, o := range group {
			if o.entry != nil {
				ops = append(ops, o)
			}
		}
	}
	return ops
}

// close closes the log, and removes it if everything in it is in the store. It returns what is not.
func (l *backlog) close() (left Unwritten, err error) {
	left = l.unwritten()
	if len(l.writer.unapplied()) > 0 {
		_ = l.secure()
		return l.unwritten(), l.charges.Close()
	}
	return left, l.charges.Remove()
}

// abandon closes the log without removing it.
func (l *backlog) abandon() error {
	if l == nil || l.charges == nil {
		return nil
	}
	return l.charges.Close()
}

// unwritten adds up the charges that are not in the store.
func (l *backlog) unwritten() (u Unwritten) {
	if l == nil {
		return u
	}
	ops := l.writer.unapplied()
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	for _, o := range ops {
		if c := o.entry.Charge; c != nil {
			u = u.Plus(c.Amount, !o.logged)
		}
	}
	return u
}

// Unwritten is this gateway's charges that are not in the store.
func (l *Ledger) Unwritten() Unwritten { return l.writer.backlog.unwritten() }

// isThere is an error if the charge log was removed.
func (l *backlog) isThere() error {
	l.logging.Lock()
	defer l.logging.Unlock()
	if l.charges.IsThere() {
		return nil
	}
	return errLogGone
}
