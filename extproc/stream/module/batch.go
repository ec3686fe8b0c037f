package module

import (
	"slices"

	"bardo.money/gateway/extproc/stream/coroutine"
)

// With several requests at once, a worker's events are not passed on where they come, among Envoy's own work for each of them, but together at the end of
// that iteration of Envoy's event loop: first all requests run as far as they can, then their operations. Each half of it is the same code again and again,
// which the processor still has in its caches; one request after the other, Envoy's code and the gateway's drive each other out of them, and a request
// takes half as long again.

// busyFrom is how many requests a worker has when it begins to do so. With fewer there is nothing to gain.
const busyFrom = 4

// batchSize is how many requests run in a row, at most.
const batchSize = 16

// batch is what waits for the end of the iteration. It is of the worker's thread.
type batch struct {
	ready   []*client
	owner   *client   // whose scheduler calls back; nil: none does
	running bool      // requests run, and their operations are kept
	several bool      // more than one of them
	turns   []*client // those that let others have their turn
	kept    []kept
}

// kept is an operation of a request.
type kept struct {
	d *client
	p posted
}

func (w *worker) isBusy() bool { return w.open >= busyFrom }

// defers lets a request begin or go on at the end of the iteration.
func (w *worker) defers(d *client) {
	d.deferred = true
	w.batch.ready = append(w.batch.ready, d)
	w.batch.schedule()
}

// schedule makes Envoy call back for what is ready.
func (b *batch) schedule() {
	if b.owner == nil && len(b.ready) > 0 {
		b.owner = b.ready[0]
		b.owner.scheduler.commit(eventBatch)
	}
}

// left is the end of a request's stream, whose scheduler does not call back any more. One that did not begin yet does now: it is recorded, too.
func (b *batch) left(d *client) {
	if d.deferred {
		b.ready = slices.DeleteFunc(b.ready, func(r *client) bool { return r == d })
		d.deferred = false
	}
	if b.owner == d {
		b.owner = nil
		b.schedule()
	}
	if d.unbegun {
		d.unbegun = false
		process.app.Opened()
		coroutine.Dispatch(d)
	}
}

// takes keeps an operation until all requests of the batch have run, unless its body is only borrowed.
func (b *batch) takes(d *client, p posted, borrows bool) bool {
	if !b.running {
		return false
	}
	if borrows {
		b.flush()
		return false
	}
	b.kept = append(b.kept, kept{d, p})
	return true
}

// flush runs what was kept.
func (b *batch) flush() {
	for len(b.kept) > 0 {
		all := b.kept
		b.kept = nil
		for _, k := range all {
			if !k.d.gone {
				k.d.runNow(k.p)
			}
		}
	}
}

// runBatch runs what is ready, in the hook of a scheduled event.
func (w *worker) runBatch() {
	b := &w.batch
	b.owner = nil
	defer b.schedule()
	w.goOn()
	b.flush()
}

// goOn lets requests of the batch begin or go on: all of them to the place where the first one lets the others have their turn, then all to the next one.
func (w *worker) goOn() {
	b := &w.batch
	b.running, b.several = true, len(b.ready) > 1
	defer func() { b.running = false }()
	for n := 0; n < batchSize && len(b.ready) > 0; n++ {
		d := b.ready[0]
		b.ready[0], b.ready = nil, b.ready[1:]
		d.deferred = false
		if d.unbegun {
			d.unbegun = false
			d.begin()
		} else {
			d.notify()
		}
		w.visited()
	}
	for len(b.turns) > 0 {
		all := b.turns
		b.turns = nil
		for _, d := range all {
			if d.waitsForTurn {
				d.waitsForTurn = false
				d.notify()
				w.visited()
			}
		}
	}
}

// visited ends a visit, to the watchdog: each step of a request is one of its own.
func (w *worker) visited() {
	w.visits.exit()
	w.visits.enter()
}

// Turn implements stream.Client.
func (d *client) Turn() {
	b := &d.w.batch
	if d.co == nil || !b.running || !b.several {
		return
	}
	d.waitsForTurn = true
	b.turns = append(b.turns, d)
	for d.waitsForTurn && !d.gone {
		d.co.Wait()
	}
	d.waitsForTurn = false
}
