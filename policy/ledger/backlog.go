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

// errLate is the answer to who waits for a change that is written later, because the store cannot be written now.
var errLate = errors.New("it is written once the store can be")

// What may wait for the store. Requests that cost money are not admitted meanwhile, so that what comes is of requests under way.
const (
	backlogOps   = 1 << 15
	backlogBytes = 64 << 20
)

// backlog is what a gateway's writer keeps while the store cannot be written: changes in the order in which they came, in memory and, as far
// as the disk takes them, in the spill file.
type backlog struct {
	failure atomic.Pointer[UnwritableError] // nil while the store can be written
	tell    func(Outage)                    // called when an outage begins and when it ends
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	closed  bool
	ops     []*op
	bytes   int64
	spill   *spill // nil: none could be made
	spilled int    // how many of ops, from the first on, are in the file
	unkept  bool   // the log says that the disk takes nothing more
	written int    // since the outage began
}

// failed is why the store cannot be written; nil while it can be, and for tools, which have no backlog: they fail at once.
func (l *backlog) failed() *UnwritableError {
	if l == nil {
		return nil
	}
	return l.failure.Load()
}

// begin notes that the store cannot be written. It returns what the outage is known by.
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
	l.tell(Outage{Err: f})
	return f
}

// again notes why the store still cannot be written.
func (l *backlog) again(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.failure.Load(); f != nil {
		l.failure.Store(&UnwritableError{Reason: reasonOf(cause), Since: f.Since, cause: cause})
	}
	l.keep() // a disk that was full may take now what it refused
}

// end notes that the store can be written again, unless there is more to write.
func (l *backlog) end() bool {
	l.mu.Lock()
	f := l.failure.Load()
	if f == nil || len(l.ops) > 0 {
		l.mu.Unlock()
		return f == nil
	}
	l.failure.Store(nil)
	l.unkept = false
	o := Outage{Err: f, Ended: true, Lasted: l.now().Sub(f.Since), Written: l.written}
	l.mu.Unlock()
	l.log.Info("the ledger is written again", "lasted", o.Lasted.String(), "written", o.Written, "reason", f.Reason)
	l.tell(o)
	return true
}

// add has changes wait, in their order, and answers them. Those that cannot wait fail. It is false, and nothing has happened, when the
// store can be written again.
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
	l.keep()
	for _, o := range l.ops[first:] {
		o.wait()
	}
	l.mu.Unlock()
	for _, o := range refused {
		o.answer(f)
	}
	return true
}

// keep writes to the spill file what is not in it yet. What the disk does not take stays in memory alone. l.mu is held.
func (l *backlog) keep() {
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
	if !l.unkept {
		l.unkept = true
		l.log.Warn("ledger: the disk does not take the charges that wait: they are in memory alone, and a kill loses them", "error", err)
	}
}

// next are the changes that are to be written first.
func (l *backlog) next(most int) []*op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*op(nil), l.ops[:min(most, len(l.ops))]...)
}

// drop removes changes that next returned and that are written now.
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
	// What is left is a suffix of what was there, but for changes that failed once more: the file holds all of it, and more.
	l.ops = left
	l.keptInFile(spilled)
}

// keptInFile notes how many of the changes are in the file. One that is empty of what still waits keeps its records until the outage ends:
// they are known to the store. l.mu is held.
func (l *backlog) keptInFile(n int) {
	if n > 0 || l.spilled == 0 {
		l.spilled = n
		return
	}
	l.spilled = 0
	if err := l.spill.reset(); err != nil {
		l.log.Debug("ledger: the spill file was not emptied", "error", err)
	}
}

// follow has the spill file bear the number of the instance, and makes one where there is none.
func (l *backlog) follow(store string, instance int64) error {
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
		_ = l.spill.close() // it is gone
	}
	l.spill, l.spilled = next, 0
	l.keep()
	return nil
}

// close ends the backlog: nothing may be added any more. It returns what is left, and how much of that is in no file.
func (l *backlog) close() (left Unwritten, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.keep()
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

// keepBeside writes changes to the spill file that are in neither the store nor the backlog, as far as is known. Writing them twice changes
// nothing. It returns how many charges wait then.
func (l *backlog) keepBeside(ops []*op) (charges int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep()
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

// abandon closes the file as it is.
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

// Unwritten are charges that wait for the store.
type Unwritten struct {
	Charges  int          `json:"charges"`
	Amount   policy.Micro `json:"usd"`
	InMemory Waiting      `json:"in_memory"` // of them: a kill loses these
}

// Waiting are some charges.
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

// sum adds up what waits. l.mu is held.
func (l *backlog) sum() (u Unwritten) {
	for i, o := range l.ops {
		if c := o.note.Charge; c != nil {
			u = u.and(c.Amount, i >= l.spilled)
		}
	}
	return u
}

// and is the sum with one more charge. What costs nothing is no charge.
func (u Unwritten) and(amount policy.Micro, inMemory bool) Unwritten {
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

// Unwritten is what of this gateway waits for the store; nothing while the store can be written.
func (l *Ledger) Unwritten() Unwritten { return l.writer.backlog.unwritten() }

// String is for logs and audits.
func (u Unwritten) String() string {
	return fmt.Sprintf("%d charges of %s USD, %d of them in memory alone", u.Charges, u.Amount, u.InMemory.Charges)
}
