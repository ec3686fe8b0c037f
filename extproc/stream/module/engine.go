package module

import (
	"bardo.money/gateway/extproc/stream/coroutine"
)

// Two engines run requests. A goroutine may wait anywhere, but each operation is a hop to the worker's thread, and each event one from there. A coroutine
// runs on that thread itself: what it waits for of Envoy resumes it, without a hop. It must not wait for anything else; what may do so leaves it
// (stream.Client.Leave) and goes on in a goroutine. Go resumes it only at the depth of calls between C and Go at which it was made: that of the outermost
// hook.

// begin serves the request in a coroutine, from the hook of its head.
func (w *worker) begin(d *client) {
	if w.depth > 1 {
		coroutine.Dispatch(d)
		return
	}
	d.co = w.pool.Take(d)
	w.run(d)
}

// resume lets a coroutine run. A hook that comes within an operation, be it of the same or of another stream, is one call between C and Go deeper: the
// coroutine runs in the outermost hook then.
func (w *worker) resume(d *client) {
	if w.depth > 1 {
		w.later = append(w.later, d)
		return
	}
	w.run(d)
}

func (w *worker) enter() {
	if w.depth++; w.depth == 1 {
		w.visits.enter()
	}
}

func (w *worker) exit() {
	w.runLater()
	if w.depth--; w.depth == 0 {
		w.visits.exit()
	}
}

// runLater runs, in the outermost hook, the coroutines that could not be resumed within it.
func (w *worker) runLater() {
	for w.depth == 1 && len(w.later) > 0 {
		d := w.later[0]
		w.later = w.later[1:]
		if d.co != nil {
			w.run(d)
		}
	}
}

func (w *worker) run(d *client) {
	state := w.pool.Run(d.co)
	if state == coroutine.Waits {
		return
	}
	d.co = nil
	d.alarm.stop()
	if state == coroutine.Leaves {
		coroutine.Dispatch(d)
	}
}
