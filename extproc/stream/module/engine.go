package module

import "iter"

// Two engines run requests. A goroutine may wait anywhere, but each operation is a hop to the worker's thread, and each event one from there. A coroutine
// runs on that thread itself: what it waits for of Envoy resumes it, without a hop. It must not wait for anything else; what may do so leaves it
// (stream.Client.Leave) and goes on in a goroutine.

// dispatch serves the request in a goroutine: one that has served others, whose stack has grown, which saves a part of a request's time.
func dispatch(d *client) {
	select {
	case idle <- d:
	default:
		go serveAll(d)
	}
}

var (
	idle      = make(chan *client)
	idleSlots = make(chan struct{}, maxIdle)
)

// maxIdle is how many goroutines wait for requests, and coroutines of one worker.
const maxIdle = 64

func serveAll(d *client) {
	for {
		d.serve()
		select {
		case idleSlots <- struct{}{}:
			d = <-idle
			<-idleSlots
		default:
			return
		}
	}
}

// coroutine runs one request after the other on its worker's thread. Go resumes it only there, and only at the depth of calls between C and Go at which
// it was made: that of the outermost hook.
type coroutine struct {
	d     *client // nil: idle
	left  bool    // the rest of d is for a goroutine
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

func newCoroutine() *coroutine {
	co := &coroutine{}
	co.next, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		co.yield = yield
		for {
			co.left = co.d.serve()
			co.d = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return co
}

// begin serves the request in a coroutine, from the hook of its head.
func (w *worker) begin(d *client) {
	if w.depth > 1 {
		dispatch(d)
		return
	}
	if n := len(w.idle); n > 0 {
		d.co, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		d.co = newCoroutine()
	}
	d.co.d = d
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
		w.visits.Add(1)
		watching.arm()
	}
}

func (w *worker) exit() {
	w.runLater()
	if w.depth--; w.depth == 0 {
		w.visits.Add(1)
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
	co := d.co
	co.next()
	if co.d != nil {
		return
	}
	d.co = nil
	if co.left {
		dispatch(d)
	}
	if len(w.idle) < maxIdle {
		w.idle = append(w.idle, co)
		return
	}
	co.stop()
}
