// Package coroutine runs requests on the thread that brings their events: a worker of Envoy's, or the goroutine that reads Envoy's connection. What a
// request waits for resumes it there, without a change of goroutines. It must not wait for anything else, because all other requests of the thread wait
// with it; what may do so goes on in a goroutine (stream.Client.Leave). The watchdog finds what waits nevertheless.
package coroutine

import "iter"

// Task is a request.
type Task interface {
	// Serve serves it. After true a second call, in a goroutine, serves the rest. It does not panic.
	Serve() (leaves bool)
}

// Coroutine runs one task after the other. It is for one goroutine at a time.
type Coroutine struct {
	task  Task // nil: idle
	left  bool // the rest of the last task is for a goroutine
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

// Wait returns when the coroutine is run again. The coroutine's own task calls it.
func (co *Coroutine) Wait() { co.yield(struct{}{}) }

// Pool is the coroutines of one thread. The zero value is ready. In a program in C, coroutines run only on the thread, and at the depth of calls between C
// and Go, at which they were made.
type Pool struct{ idle []*Coroutine }

// maxIdle is how many coroutines of a pool wait for tasks, and how many goroutines do.
const maxIdle = 64

// Take is a coroutine for the task, which Run begins.
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

// State is how far a task is.
type State int

// What Run returns.
const (
	Waits  State = iota // in Wait
	Ended               // the coroutine is not the task's any more
	Leaves              // the same, and the rest is for Dispatch
)

// Run lets a coroutine go on until its task waits or ends.
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

// Close ends the coroutines that are idle.
func (p *Pool) Close() {
	for _, co := range p.idle {
		co.stop()
	}
	p.idle = nil
}

// Dispatch serves the task in a goroutine: one that has served others, where one waits, since its stack has grown.
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
