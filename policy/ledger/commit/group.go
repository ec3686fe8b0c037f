package commit

import (
	"slices"
	"time"
)

// gather takes a group off the queue. w.mu is locked and the book taken.
func (w *Writer) gather() []*Op {
	n := min(len(w.queue), groupLimit)
	group := slices.Clone(w.queue[:n])
	for _, o := range group {
		if o.reply != nil {
			w.waiters--
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	w.committing = group
	return group
}

// write commits the queue: all of it, or until no sender waits for an op in it.
func (w *Writer) write(all bool) {
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
		if len(group) == 0 || !w.Commit(group) {
			return
		}
	}
}

// Commit commits a group and answers its ops. While the store cannot be written, entries are put back into the queue and other ops fail; ok is false then. Only
// a function that has exclusive use of the book (Between, Options.Changed) may call it.
func (w *Writer) Commit(group []*Op) (ok bool) {
	if len(group) == 0 {
		return true
	}
	if f := w.StoreFailure(); f != nil {
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
	w.backlog.beginStoreOutage(cause)
	w.putBack(failed, w.backlog.unwritable(cause))
	w.applied(difference(group, failed))
	return false
}

// putBack puts the entries of ops at the head of the queue, in order, and fails the others.
func (w *Writer) putBack(ops []*Op, f error) {
	var entries []*Op
	for _, o := range ops {
		if o.Entry != nil {
			entries = append(entries, o)
			continue
		}
		w.answer(o, f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(entries, w.queue...)
	w.committing = nil
}

// applied informs the charge log and the backlog which entries are in the store.
func (w *Writer) applied(ops []*Op) {
	w.mu.Lock()
	w.committing = nil
	var d dropped
	for _, o := range ops {
		d.add(o)
	}
	for _, o := range w.queue { // it is in the log's order, and begins after the applied entries
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
func (w *Writer) try(group []*Op) (failed []*Op, cause error) {
	for _, o := range group {
		o.err = nil
	}
	began := time.Now()
	err := w.commitGroup(group)
	if w.o.Committed != nil && err == nil {
		w.o.Committed(time.Since(began), len(group))
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

// answer ends an op with its result.
func (w *Writer) answer(o *Op, err error) {
	o.err = err
	if o.Entry != nil && err != nil && w.o.Refused != nil {
		w.o.Refused(o.Entry, err)
	}
	o.answer(err)
}

// commitGroup runs a group's ops in one transaction, first together; if that fails for other reasons than an outage, each in a savepoint, so an op's
// Apply may run twice. The error concerns the whole group; an op's own error is stored in it.
func (w *Writer) commitGroup(group []*Op) error {
	failed, err := w.runAll(group)
	if !failed {
		return err
	}
	if len(group) == 1 {
		return nil // it is the op's own
	}
	return w.tally.Atomically(w.book, func() error {
		for _, o := range group {
			var err error
			if o.err, err = w.book.InSavepoint(o.Apply); err != nil {
				return err
			}
		}
		return nil
	})
}

// runAll runs a group as one. failed is true when ops failed by themselves: then none has happened.
func (w *Writer) runAll(group []*Op) (failed bool, err error) {
	err = w.tally.Atomically(w.book, func() error {
		for left := group; len(left) > 0; {
			done, err := w.runSome(left)
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
func (w *Writer) runSome(ops []*Op) (done int, err error) {
	if w.o.Together != nil {
		if n, err := w.o.Together(ops); n > 0 || err != nil {
			return n, err
		}
	}
	o := ops[0]
	o.err = o.Apply()
	return 1, o.err
}

// difference is the ops that are not in others.
func difference(ops, others []*Op) (left []*Op) {
	out := make(map[*Op]bool, len(others))
	for _, o := range others {
		out[o] = true
	}
	for _, o := range ops {
		if !out[o] {
			left = append(left, o)
		}
	}
	return left
}
