package module

import "bardo.money/gateway/extproc/stream/coroutine"

// With several requests at once, a worker's events are not passed on where they come, among Envoy's own work for each of them, but together at the end of
// that iteration of Envoy's event loop: first all requests run as far as they can, then their operations. One request after the other, Envoy's code and the
// gateway's drive each other out of the processor's caches, and a request takes half as long again.

// busyFrom is how many requests a worker has when it begins to do so. With fewer there is nothing to gain.
const busyFrom = 4

// batch is what waits for the end of the iteration. It is of the worker's thread.
type batch struct {
	coroutine.Batch[*client]

	owner *client // whose scheduler calls back; nil: none does
	keeps bool    // requests run, and their operations are kept
	kept  []kept
}

// kept is an operation of a request.
type kept struct {
	d *client
	p posted
}

func (w *worker) isBusy() bool { return w.open >= busyFrom }

// begins lets a request begin at the end of the iteration.
func (b *batch) begins(d *client) {
	b.Begin(d)
	b.schedule()
}

// defers lets a request go on at the end of the iteration.
func (b *batch) defers(d *client) {
	b.Add(d)
	b.schedule()
}

// schedule makes Envoy call back for what is ready.
func (b *batch) schedule() {
	if b.owner != nil {
		return
	}
	if d, ok := b.Next(); ok {
		b.owner = d
		d.scheduler.commit(eventBatch)
	}
}

// left is the end of a request's stream, whose scheduler does not call back any more. It reports whether the request did not begin yet.
func (b *batch) left(d *client) (unbegun bool) {
	unbegun = b.Remove(d)
	if b.owner == d {
		b.owner = nil
		b.schedule()
	}
	return unbegun
}

// takes keeps an operation until all requests of the batch have run, unless its body is only borrowed.
func (b *batch) takes(d *client, p posted, borrows bool) bool {
	if !b.keeps {
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

// run runs what is ready, in the hook of a scheduled event.
func (b *batch) run() {
	b.owner = nil
	defer b.schedule()
	b.goOn()
	b.flush()
}

// goOn lets requests begin or go on, and keeps their operations.
func (b *batch) goOn() {
	b.keeps = true
	defer func() { b.keeps = false }()
	b.Run()
}

// Begin implements coroutine.Member.
func (d *client) Begin() {
	d.begin()
	d.w.visited()
}

// Resume implements coroutine.Member.
func (d *client) Resume() {
	d.notify()
	d.w.visited()
}

// Place implements coroutine.Member.
func (d *client) Place() *coroutine.Place { return &d.place }

// visited ends a visit, to the watchdog: each step of a request is one of its own.
func (w *worker) visited() {
	w.visits.exit()
	w.visits.enter()
}

// Turn implements stream.Client.
func (d *client) Turn() {
	if d.co != nil && !d.gone {
		d.w.batch.Turn(d, d.co)
	}
}
