package module

import (
	"bardo.money/gateway/extproc/stream/coroutine"
)

// Two engines run requests. A goroutine may block on anything, but each operation is handed to the worker's thread, and each event is handed over
// from there. A coroutine runs on that thread itself: Envoy's events resume it directly. It must not block on anything else; steps that may do so
// continue in a goroutine (stream.Client.Leave). Go resumes a coroutine only at the depth of calls between C and Go at which it was made: that of the
// outermost hook.

// begin serves the request in a coroutine, from the hook of its head.
func (w *worker) begin(d *client) {
	if w.depth > 1 {
		coroutine.Dispatch(d)
		return
	}
	d.co = w.pool.Take(d)
	w.run(d)
}

// resume runs a coroutine. A hook within an operation, of the same or another stream, is one call between C and Go deeper: the coroutine then runs in
// the outermost hook.
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

// runLater runs, in the outermost hook, the coroutines that could not be resumed before.
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
