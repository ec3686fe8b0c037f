package module

import "bardo.money/gateway/extproc/stream/coroutine"

// On a busy worker, events are not processed as they arrive, interleaved with Envoy's own work, but together at the end of that iteration of Envoy's
// event loop: first all requests run as far as they can, then their operations. Otherwise Envoy's code and the gateway's evict each other from the
// processor's caches, and a request takes half as long again.

// busyFrom is the number of a worker's requests from which events are batched. With fewer there is no gain.
const busyFrom = 4

// batch is the work for the end of the iteration. It is used on the worker's thread only.
type batch struct {
	coroutine.Batch[*client]

	owner    *client // the client whose scheduler calls back; nil for none
	keeps    bool    // requests are running, and their operations are deferred
	deferred []deferredOp
}

// deferredOp is a deferred operation of a request.
type deferredOp struct {
	d *client
	p posted
}

func (w *worker) isBusy() bool { return w.open >= busyFrom }

// begins schedules the start of a request for the end of the iteration.
func (b *batch) begins(d *client) {
	b.Begin(d)
	b.schedule()
}

// defers schedules the resumption of a request for the end of the iteration.
func (b *batch) defers(d *client) {
	b.Add(d)
	b.schedule()
}

// schedule makes Envoy call back if anything is ready.
func (b *batch) schedule() {
	if b.owner != nil {
		return
	}
	if d, ok := b.Next(); ok {
		b.owner = d
		d.scheduler.commit(eventBatch)
	}
}

// remove handles the end of a request's stream, whose scheduler no longer calls back. It reports whether the request had not begun yet.
func (b *batch) remove(d *client) (unbegun bool) {
	unbegun = b.Remove(d)
	if b.owner == d {
		b.owner = nil
		b.schedule()
	}
	return unbegun
}

// takes defers an operation until all requests of the batch have run, unless its body is borrowed.
func (b *batch) takes(d *client, p posted, borrows bool) bool {
	if !b.keeps {
		return false
	}
	if borrows {
		b.flush()
		return false
	}
	b.deferred = append(b.deferred, deferredOp{d, p})
	return true
}

// flush runs the deferred operations.
func (b *batch) flush() {
	for len(b.deferred) > 0 {
		all := b.deferred
		b.deferred = nil
		for _, k := range all {
			if !k.d.ended {
				k.d.runNow(k.p)
			}
		}
	}
}

// run runs what is ready, in the hook of a scheduled event.
func (b *batch) run() {
	b.owner = nil
	defer b.schedule()
	b.resumeReady()
	b.flush()
}

// resumeReady begins or resumes requests, and defers their operations.
func (b *batch) resumeReady() {
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

// visited restarts the visit for the watchdog: each step of a request counts as one.
func (w *worker) visited() {
	w.visits.exit()
	w.visits.enter()
}

// Turn implements stream.Client.
func (d *client) Turn() {
	if d.co != nil && !d.ended {
		d.w.batch.Turn(d, d.co)
	}
}
