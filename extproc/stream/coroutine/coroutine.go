// Package coroutine runs requests on the thread that delivers their events: a worker of Envoy's, or the goroutine that reads Envoy's connection. An
// event resumes its request there without switching goroutines. A request must not block on anything else, because all other requests of the thread
// would wait; steps that may block continue in a goroutine (stream.Client.Leave). The watchdog detects violations.
package coroutine

import "iter"

// Task is a request.
type Task interface {
	// Serve serves the task. If it returns true, a second call, in a goroutine, serves the rest. It does not panic.
	Serve() (leaves bool)
}

// Coroutine runs one task after the other. It is used by one goroutine at a time.
type Coroutine struct {
	task  Task // nil: idle
	left  bool // the rest of the last task continues in a goroutine
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

func newCoroutine() *Coroutine {
	co := &Coroutine{}
	co.next, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		co.yield = yield
		for {
			co.left = co.task.Serve()
			co.task = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return co
}

// Wait suspends the coroutine until it is run again. Only the coroutine's own task calls it.
func (co *Coroutine) Wait() { co.yield(struct{}{}) }

// Pool holds the coroutines of one thread. The zero value is ready. In a C program, coroutines run only on the thread, and at the depth of calls
// between C and Go, at which they were made.
type Pool struct{ idle []*Coroutine }

// maxIdle is the maximum number of idle coroutines of a pool, and of idle goroutines.
const maxIdle = 64

// Take returns a coroutine for the task, which Run starts.
func (p *Pool) Take(t Task) *Coroutine {
	var co *Coroutine
	if n := len(p.idle); n > 0 {
		co, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		co = newCoroutine()
	}
	co.task = t
	return co
}

// State is the state of a task after a Run.
type State int

// Results of Run.
const (
	Waits  State = iota // suspended in Wait
	Ended               // the coroutine is free again
	Leaves              // the same, and the rest of the task is for Dispatch
)

// Run resumes a coroutine until its task waits or ends.
func (p *Pool) Run(co *Coroutine) State {
	co.next()
	if co.task != nil {
		return Waits
	}
	end := Ended
	if co.left {
		end = Leaves
	}
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, co)
	} else {
		co.stop()
	}
	return end
}

// Close ends the idle coroutines.
func (p *Pool) Close() {
	for _, co := range p.idle {
		co.stop()
	}
	p.idle = nil
}

// Dispatch serves the task in a goroutine; an idle one is reused, because its stack has grown already.
func Dispatch(t Task) {
	select {
	case idle <- t:
	default:
		go serveAll(t)
	}
}

var (
	idle      = make(chan Task)
	idleSlots = make(chan struct{}, maxIdle)
)

func serveAll(t Task) {
	for {
		t.Serve()
		select {
		case idleSlots <- struct{}{}:
			t = <-idle
			<-idleSlots
		default:
			return
		}
	}
}
