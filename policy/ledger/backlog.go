package ledger

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
)

// errDeferred is returned for a change that will be written later, because the store cannot be written now.
var errDeferred = errors.New("it is written once the store can be")

// Limits of deferred changes. During an outage no requests that cost money are admitted, so they come from requests in flight.
const (
	backlogOps   = 1 << 15
	backlogBytes = 64 << 20
)

// backlog is a gateway's deferred changes while the store cannot be written: in order, in memory and, if the disk allows, in the spill file.
type backlog struct {
	failure  atomic.Pointer[UnwritableError] // nil while the store can be written
	onOutage func(Outage)                    // called at the start and end of an outage
	log      *slog.Logger
	now      func() time.Time

	mu          sync.Mutex
	closed      bool
	ops         []*op
	bytes       int64
	spill       *spill // nil if it could not be created
	spilled     int    // number of ops, from the first, that are in the file
	diskRefused bool   // logged that the disk accepts no more
	written     int    // since the start of the outage
}

// failed is why the store cannot be written; nil if it can. Tools have no backlog: they fail immediately.
func (l *backlog) failed() *UnwritableError {
	if l == nil {
		return nil
	}
	return l.failure.Load()
}

// begin starts an outage and returns its error.
func (l *backlog) begin(cause error) *UnwritableError {
	l.mu.Lock()
	if f := l.failure.Load(); f != nil {
		l.mu.Unlock()
		return f
	}
	f := &UnwritableError{Reason: reasonOf(cause), Since: l.now(), cause: cause}
	l.failure.Store(f)
	l.written = 0
	l.mu.Unlock()
	l.log.Error("the ledger cannot be written: nothing that costs money is served until it can be, and charges of requests under way wait",
		"reason", f.Reason, "error", cause)
	l.onOutage(Outage{Err: f})
	return f
}

// stillFailing updates the cause of the outage.
func (l *backlog) stillFailing(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.failure.Load(); f != nil {
		l.failure.Store(&UnwritableError{Reason: reasonOf(cause), Since: f.Since, cause: cause})
	}
	l.spillOps() // a full disk may have space now
}

// end ends the outage, unless there is more to write.
func (l *backlog) end() bool {
	l.mu.Lock()
	f := l.failure.Load()
	if f == nil || len(l.ops) > 0 {
		l.mu.Unlock()
		return f == nil
	}
	l.failure.Store(nil)
	l.diskRefused = false
	o := Outage{Err: f, Ended: true, Lasted: l.now().Sub(f.Since), Written: l.written}
	l.mu.Unlock()
	l.log.Info("the ledger is written again", "lasted", o.Lasted.String(), "written", o.Written, "reason", f.Reason)
	l.onOutage(o)
	return true
}

// add defers changes in order and answers them. Those that cannot be deferred fail. It returns false and does nothing if the outage is over.
func (l *backlog) add(ops ...*op) bool {
	l.mu.Lock()
	f := l.failure.Load()
	if f == nil || l.closed {
		l.mu.Unlock()
		return false
	}
	var refused []*op
	first := len(l.ops)
	for _, o := range ops {
		size := o.size()
		if o.note == nil || len(l.ops) >= backlogOps || l.bytes+size > backlogBytes {
			refused = append(refused, o)
			continue
		}
		l.ops = append(l.ops, o)
		l.bytes += size
	}
	l.spillOps()
	for _, o := range l.ops[first:] {
		o.wait()
	}
	l.mu.Unlock()
	for _, o := range refused {
		o.answer(f)
	}
	return true
}

// spillOps writes ops to the spill file that are not in it yet. What the disk refuses stays in memory only. l.mu is locked.
func (l *backlog) spillOps() {
	if l.spill == nil || l.spilled == len(l.ops) {
		return
	}
	notes := make([]*note, 0, len(l.ops)-l.spilled)
	for _, o := range l.ops[l.spilled:] {
		notes = append(notes, o.note)
	}
	err := l.spill.add(notes)
	if err == nil {
		l.spilled = len(l.ops)
		return
	}
	if !l.diskRefused {
		l.diskRefused = true
		l.log.Warn("ledger: the disk does not take the charges that wait: they are in memory alone, and a kill loses them", "error", err)
	}
}

// next are the first changes to write.
func (l *backlog) next(limit int) []*op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*op(nil), l.ops[:min(limit, len(l.ops))]...)
}

// drop removes changes that were written.
func (l *backlog) drop(done []*op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := make(map[*op]bool, len(done))
	for _, o := range done {
		gone[o] = true
	}
	left, spilled := l.ops[:0], 0
	for i, o := range l.ops {
		if gone[o] {
			l.bytes -= o.size()
			l.written++
			continue
		}
		if i < l.spilled {
			spilled++
		}
		left = append(left, o)
	}
	clear(l.ops[len(left):])
	// The rest is a suffix of the ops, except for changes that failed again: the file has all of them and more.
	l.ops = left
	l.setSpilled(spilled)
}

// setSpilled sets how many of the ops are in the file. Records that are already in the store stay in the file until the outage ends. l.mu is
// locked.
func (l *backlog) setSpilled(n int) {
	if n > 0 || l.spilled == 0 {
		l.spilled = n
		return
	}
	l.spilled = 0
	if err := l.spill.reset(); err != nil {
		l.log.Debug("ledger: the spill file was not emptied", "error", err)
	}
}

// renameSpill renames the spill file to the instance's id, and creates it if there is none.
func (l *backlog) renameSpill(store string, instance int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spill != nil && l.spill.isThere() && l.spill.rename(spillOf(store, instance)) == nil {
		return nil
	}
	next, err := createSpill(store, instance)
	if err != nil {
		return err
	}
	if l.spill != nil {
		_ = l.spill.close() // it was removed
	}
	l.spill, l.spilled = next, 0
	l.spillOps()
	return nil
}

// close ends the backlog: nothing can be added. It returns what is unwritten, and how much of it is in no file.
func (l *backlog) close() (left Unwritten, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.spillOps()
	left = l.sum()
	if l.spill == nil {
		return left, nil
	}
	s := l.spill
	l.spill = nil
	if len(l.ops) > 0 {
		return left, s.close()
	}
	return left, s.remove()
}

// spillExtra writes changes to the spill file that may be in neither the store nor the backlog; applying them twice changes nothing. It
// returns the number of unwritten charges.
func (l *backlog) spillExtra(ops []*op) (charges int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spillOps()
	charges = l.sum().Charges
	var notes []*note
	for _, o := range ops {
		if o.note == nil {
			continue
		}
		notes = append(notes, o.note)
		if o.note.Charge != nil && o.note.Charge.Amount != 0 {
			charges++
		}
	}
	if len(notes) == 0 {
		return charges, nil
	}
	if l.spill == nil {
		return charges, errors.New("there is no spill file")
	}
	return charges, l.spill.add(notes)
}

// abandon closes the file without removing it.
func (l *backlog) abandon() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.spill == nil {
		return nil
	}
	s := l.spill
	l.spill = nil
	return s.close()
}

// Unwritten are charges that are not in the store yet.
type Unwritten struct {
	Charges  int          `json:"charges"`
	Amount   policy.Micro `json:"usd"`
	InMemory Waiting      `json:"in_memory"` // the part that is lost if the process is killed
}

// Waiting is a number of charges and their sum.
type Waiting struct {
	Charges int          `json:"charges"`
	Amount  policy.Micro `json:"usd"`
}

func (l *backlog) unwritten() Unwritten {
	if l == nil {
		return Unwritten{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum()
}

// sum adds up the deferred charges. l.mu is locked.
func (l *backlog) sum() (u Unwritten) {
	for i, o := range l.ops {
		if c := o.note.Charge; c != nil {
			u = u.plus(c.Amount, i >= l.spilled)
		}
	}
	return u
}

// plus is the sum with one more charge. A zero amount is not counted.
func (u Unwritten) plus(amount policy.Micro, inMemory bool) Unwritten {
	if amount == 0 {
		return u
	}
	u.Charges++
	u.Amount += amount
	if inMemory {
		u.InMemory.Charges++
		u.InMemory.Amount += amount
	}
	return u
}

// Unwritten is this gateway's deferred charges; zero unless there is an outage.
func (l *Ledger) Unwritten() Unwritten { return l.writer.backlog.unwritten() }

// String is the text in logs and audits.
func (u Unwritten) String() string {
	return fmt.Sprintf("%d charges of %s USD, %d of them in memory alone", u.Charges, u.Amount, u.InMemory.Charges)
}
