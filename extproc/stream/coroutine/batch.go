package coroutine

import "slices"

// Member is a task in a batch, on the batch's thread.
type Member interface {
	comparable
	// Begin starts the task, and Resume continues it: each returns when the task blocks (including in Turn), ends or leaves.
	Begin()
	Resume()
	// Place returns the batch's state for the task.
	Place() *Place
}

// Place is a batch's state for one task. The zero value is a task outside the batch.
type Place struct {
	ready   bool // it is in Batch.ready
	unbegun bool // ready to begin, not to resume
	turn    bool // it waits in Turn
}

// Ready reports whether the next Run begins or resumes the task.
func (p *Place) Ready() bool { return p.ready }

// Batch runs tasks of one thread in lockstep: some of them up to the first one's call of Turn, then all of these up to the next. Each step of a task
// runs the same code for one task after the other, which is then still in the processor's caches. The zero value is ready.
type Batch[M Member] struct {
	ready   []M
	next    int // index in ready: tasks before it ran in this Run
	turns   []M // tasks that wait in Turn
	spare   []M // reused memory for turns
	several bool
}

// batchSize is the maximum number of tasks that run in a row.
const batchSize = 16

// Begin schedules the start of a task for the next Run.
func (b *Batch[M]) Begin(m M) {
	m.Place().unbegun = true
	b.Add(m)
}

// Add schedules the resumption of a task for the next Run.
func (b *Batch[M]) Add(m M) {
	if p := m.Place(); !p.ready {
		p.ready = true
		b.ready = append(b.ready, m)
	}
}

// Next returns the first ready task, if any.
func (b *Batch[M]) Next() (m M, ok bool) {
	if b.next == len(b.ready) {
		return m, false
	}
	return b.ready[b.next], true
}

// Remove removes a task from the batch: its further steps do not wait in Turn. It reports whether the task had not begun yet.
func (b *Batch[M]) Remove(m M) (unbegun bool) {
	p := m.Place()
	if p.ready {
		i := b.next + slices.Index(b.ready[b.next:], m)
		b.ready = slices.Delete(b.ready, i, i+1)
	}
	unbegun = p.unbegun
	*p = Place{}
	return unbegun
}

// Run begins or resumes up to batchSize tasks, until none of them waits in Turn.
func (b *Batch[M]) Run() {
	b.several = len(b.ready) > 1
	defer b.end()
	for b.next < min(batchSize, len(b.ready)) {
		m := b.ready[b.next]
		b.next++
		p := m.Place()
		begins := p.unbegun
		p.ready, p.unbegun = false, false
		if begins {
			m.Begin()
		} else {
			m.Resume()
		}
	}
	for len(b.turns) > 0 {
		all := b.turns
		b.turns, b.spare = b.spare[:0], nil
		for _, m := range all {
			if p := m.Place(); p.turn {
				p.turn = false
				m.Resume()
			}
		}
		clear(all)
		b.spare = all
	}
}

// end ends a Run.
func (b *Batch[M]) end() {
	b.ready, b.next = slices.Delete(b.ready, 0, b.next), 0
	b.several = false
}

// Turn lets the other tasks of a Run reach the same step as m, which co runs. It returns immediately outside of a Run, and if there are no others.
func (b *Batch[M]) Turn(m M, co *Coroutine) {
	if !b.several {
		return
	}
	p := m.Place()
	p.turn = true
	b.turns = append(b.turns, m)
	for p.turn {
		co.Wait()
	}
}
