package commit

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy/ledger/chargelog"
)

// maxBacklog is the maximum number of entries that may wait for the store. At half of it, or of Options.MaxBacklog, the gateway takes no new requests that cost
// money, so that those in flight have room.
const maxBacklog = 1 << 15

// backlog is the part of the writer's queue that is in the charge log, or is to be: the entries that the store does not have.
type backlog struct {
	writer   *Writer
	log      *slog.Logger
	now      func() time.Time
	options  chargelog.Options
	maxBytes int64
	onOutage func(Outage) // called at the start and end of an outage; may be nil

	store   atomic.Pointer[UnwritableError] // why the store cannot be written; nil if it can
	failure atomic.Pointer[UnwritableError] // why charges may not outlive the process, or are too many; nil if they are safe

	logging sync.Mutex // for appends: the queue is in the log's order
	charges *chargelog.Log

	mu      sync.Mutex
	ops     int
	bytes   int64
	written int // since the start of the outage
}

func newBacklog(w *Writer, o *Options) *backlog {
	b := &backlog{writer: w, log: o.Log, now: o.Now, onOutage: o.Outage, options: o.Charges, maxBytes: o.MaxBacklog}
	b.options.OnFailure = b.beginOutage
	return b
}

// StoreFailure is why the store cannot be written, so that entries wait; nil while they are applied, and for a tool, which finds out when it writes. It is an
// atomic load.
func (w *Writer) StoreFailure() *UnwritableError {
	if w.backlog == nil {
		return nil
	}
	return w.backlog.store.Load()
}

// Failure is why entries are not safe: the charge log does not take them or sync them, or the store is too far behind; nil while they are. It is an atomic load.
func (w *Writer) Failure() *UnwritableError {
	if w.backlog == nil {
		return nil
	}
	return w.backlog.failure.Load()
}

// CheckLog begins an outage if the charge log's files were removed. Only a gateway's writer has a log to check.
func (w *Writer) CheckLog() {
	b := w.backlog
	b.logging.Lock()
	exists := b.charges.Exists()
	b.logging.Unlock()
	if !exists {
		b.beginOutage(errLogMissing)
	}
}

// CheckStore checks that the store's file lies where it was opened, and reports whether it does. If not, entries wait in the charge log until it does again. Only
// a gateway's writer may check, and not after Stop.
func (w *Writer) CheckStore() bool {
	if err := w.Between(w.book.CheckFile); err != nil {
		w.backlog.beginStoreOutage(err)
		return false
	}
	return true
}

// unwritable is the error with a cause, since now.
func (b *backlog) unwritable(cause error) *UnwritableError {
	return &UnwritableError{Reason: reasonOf(cause), Since: b.now(), cause: cause}
}

// beginStoreOutage notes that the store cannot be written.
func (b *backlog) beginStoreOutage(cause error) {
	f := b.unwritable(cause)
	if !b.store.CompareAndSwap(nil, f) {
		return
	}
	b.log.Warn("ledger: the store cannot be written: charges are in the charge log until it can be", "reason", f.Reason, "error", cause)
	signal(b.writer.outageBegan)
}

// endStoreOutage notes that the store can be written.
func (b *backlog) endStoreOutage() {
	if f := b.store.Swap(nil); f != nil {
		b.log.Info("ledger: the store is written again", "lasted", b.now().Sub(f.Since).String(), "reason", f.Reason)
	}
}

// beginOutage starts an outage: nothing that costs money is served until it ends.
func (b *backlog) beginOutage(cause error) {
	f := b.unwritable(cause)
	if !b.failure.CompareAndSwap(nil, f) {
		return
	}
	b.mu.Lock()
	b.written = 0
	b.mu.Unlock()
	b.log.Error("the ledger cannot be written: nothing that costs money is served until it can be, and charges of requests under way wait",
		"reason", f.Reason, "error", cause)
	b.notify(Outage{Err: f})
	signal(b.writer.outageBegan)
}

// endOutage ends the outage that there is.
func (b *backlog) endOutage() {
	f := b.failure.Swap(nil)
	b.mu.Lock()
	o := Outage{Err: f, Ended: true, Lasted: b.now().Sub(f.Since), Written: b.written}
	b.mu.Unlock()
	b.log.Info("the ledger is written again", "lasted", o.Lasted.String(), "written", o.Written, "reason", f.Reason)
	b.notify(o)
}

func (b *backlog) notify(o Outage) {
	if b.onOutage != nil {
		b.onOutage(o)
	}
}

// isAbove reports whether more waits than a part of the limits.
func (b *backlog) isAbove(part int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ops >= maxBacklog/part || b.bytes >= b.maxBytes/int64(part)
}

// Append writes an op's entry to the charge log and queues it for the store. If the log does not take it, it is in the queue alone, and an outage
// begins. The error is ErrNotGateway, ErrClosed, or an *UnwritableError if too many wait.
func (w *Writer) Append(o *Op) error {
	b := w.backlog
	if b == nil {
		return ErrNotGateway
	}
	const fixed = 1024
	o.size = fixed
	if o.Entry.Charge != nil {
		o.size += int64(len(o.Entry.Charge.Record))
	}
	if b.isAbove(1) { // an outage has begun at half of it
		return b.unwritable(errBacklog)
	}
	if err := b.append(o); err != nil {
		return err
	}
	if b.isAbove(2) {
		b.beginOutage(errBacklog)
	}
	return nil
}

func (b *backlog) append(o *Op) error {
	b.logging.Lock()
	defer b.logging.Unlock()
	var err error
	o.span, err = b.charges.Append(o.Entry)
	o.logged = err == nil
	if err := b.writer.enqueue(o); err != nil {
		return err
	}
	if err != nil {
		b.beginOutage(err)
	}
	b.mu.Lock()
	b.ops++
	b.bytes += o.size
	b.mu.Unlock()
	return nil
}

// WaitSynced returns once an appended entry is on disk, or if an outage has begun, in which it may be in the queue alone.
func (w *Writer) WaitSynced(o *Op) {
	w.mu.Lock()
	end := o.span.End // zero if it is in the queue alone
	w.mu.Unlock()
	if err := w.Log().WaitSynced(end); err != nil {
		w.backlog.beginOutage(err)
	}
}

// dropped are entries that are in the store.
type dropped struct {
	ops   int
	bytes int64
	end   chargelog.Position // of the last one in the log
}

func (d *dropped) add(o *Op) {
	if o.Entry == nil {
		return
	}
	d.ops++
	d.bytes += o.size
	d.end = max(d.end, o.span.End) // zero if it is in the queue alone
}

// drop removes entries that are in the store. Without a backlog there are none.
func (b *backlog) drop(d dropped) {
	if d.ops == 0 {
		return
	}
	b.mu.Lock()
	b.ops -= d.ops
	b.bytes -= d.bytes
	b.written += d.ops
	b.mu.Unlock()
	b.writer.Log().Applied(d.end)
}

// Log is the charge log. Only a gateway's writer has one, once PlaceLog has made it.
func (w *Writer) Log() *chargelog.Log {
	w.backlog.logging.Lock()
	defer w.backlog.logging.Unlock()
	return w.backlog.charges
}

// PlaceLog gives the charge log a name: the prefix of its files. It makes a new log if there is none, or for another store, because applied entries of the old
// log are not there.
func (w *Writer) PlaceLog(prefix string, another bool) error {
	b := w.backlog
	b.logging.Lock()
	defer b.logging.Unlock()
	before := b.charges
	if before != nil && !another && before.Exists() && before.Rename(prefix) == nil {
		return nil
	}
	next, err := chargelog.Create(prefix, b.options)
	if err != nil {
		return err
	}
	b.charges = next
	if err := errors.Join(b.repeat(0), next.Sync()); err != nil || before == nil {
		return err
	}
	return before.Remove()
}

// SecureLog appends the entries again that may not be on disk, and returns nil if the log is reliable, or if there is none.
func (w *Writer) SecureLog() error {
	if w.backlog == nil {
		return nil
	}
	return w.backlog.secure()
}

func (b *backlog) secure() error {
	b.logging.Lock()
	defer b.logging.Unlock()
	if err := b.repeat(b.charges.Synced()); err != nil {
		return err
	}
	return b.charges.Check()
}

// repeat appends all entries again, from the first one on that is not in the log, or after the position up to which the log is on disk. An entry that is in
// the log twice is applied once. b.logging is locked.
func (b *backlog) repeat(synced chargelog.Position) error {
	w := b.writer
	repeating := false
	for _, o := range w.unapplied() {
		w.mu.Lock()
		repeating = repeating || !o.logged || o.span.End > synced
		w.mu.Unlock()
		if !repeating {
			continue
		}
		span, err := b.charges.Append(o.Entry)
		w.mu.Lock()
		o.span, o.logged = span, err == nil
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// unapplied returns the ops with entries that may not be in the store.
func (w *Writer) unapplied() (ops []*Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, group := range [][]*Op{w.committing, w.queue} {
		for _, o := range group {
			if o.Entry != nil {
				ops = append(ops, o)
			}
		}
	}
	return ops
}

// CloseLog closes the charge log, and removes it if all its entries are in the store. left is those that are not. Only a gateway's writer has a log to close.
func (w *Writer) CloseLog() (left chargelog.Unwritten, err error) {
	left = w.Unwritten()
	if len(w.unapplied()) > 0 {
		_ = w.backlog.secure()
		return w.Unwritten(), w.backlog.charges.Close()
	}
	return left, w.backlog.charges.Remove()
}

// AbandonLog closes the charge log, if there is one, without removing it.
func (w *Writer) AbandonLog() error {
	if w.backlog == nil || w.backlog.charges == nil {
		return nil
	}
	return w.backlog.charges.Close()
}

// Unwritten adds up the charges that are not in the store.
func (w *Writer) Unwritten() (u chargelog.Unwritten) {
	if w.backlog == nil {
		return u
	}
	ops := w.unapplied()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range ops {
		if c := o.Entry.Charge; c != nil {
			u = u.Plus(c.Amount, !o.logged)
		}
	}
	return u
}
