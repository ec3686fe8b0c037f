package coroutine

import "slices"

// Member is a task that goes on in a batch, on the batch's thread.
type Member interface {
	comparable
	// Begin begins to serve the task, and Resume lets it go on: each returns when the task waits for something, its turn included, or has ended or left.
	Begin()
	Resume()
	// Place is what the batch knows of the task.
	Place() *Place
}

// Place is what a batch knows of a task. The zero value is that of a task outside the batch.
type Place struct {
	ready   bool // it is in the batch's ready
	unbegun bool // and begins then
	turn    bool // it waits in Turn
}

// Ready reports whether the task begins or goes on with the next Run.
func (p *Place) Ready() bool { return p.ready }

// Batch lets tasks of one thread go on together: some of them to the place where the first one lets the others have their turn, then all of these to the
// next one. Each step of a task is the same code for one after the other, which the processor still has in its caches. The zero value is ready.
type Batch[M Member] struct {
	ready   []M
	next    int // of ready: those before it ran in this Run
	turns   []M // they wait in Turn
	spare   []M // memory for turns
	several bool
}

// batchSize is how many tasks run in a row, at most.
const batchSize = 16

// Begin lets a task begin with the next Run.
func (b *Batch[M]) Begin(m M) {
	m.Place().unbegun = true
	b.Add(m)
}

// Add lets a task go on with the next Run.
func (b *Batch[M]) Add(m M) {
	if p := m.Place(); !p.ready {
		p.ready = true
		b.ready = append(b.ready, m)
	}
}

// Next is the first of the tasks that are ready, if there is one.
func (b *Batch[M]) Next() (m M, ok bool) {
	if b.next == len(b.ready) {
		return m, false
	}
	return b.ready[b.next], true
}

// Remove takes a task out of the batch: what runs next of it does not wait for its turn. It reports whether the task would have begun with the next Run.
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

// Run lets up to batchSize tasks begin or go on, until none of them waits for its turn.
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

// Turn lets the other tasks of a Run come as far as this one, which co runs. It returns at once outside of a Run, and where there are no others.
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
