package duplex

import (
	"errors"
	"iter"

	"bardo.money/gateway/extproc/stream"
)

// coroutine runs one stream after the other on the goroutine that reads the connection.
type coroutine struct {
	s     *Stream // nil: idle
	left  bool    // the rest of s is for a goroutine
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

func newCoroutine() *coroutine {
	co := &coroutine{}
	co.next, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		co.yield = yield
		for {
			co.left = co.s.serve()
			co.s = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return co
}

// maxIdle is how many coroutines of a connection, and goroutines, wait for streams.
const maxIdle = 64

// start serves a stream in a coroutine.
func (c *conn) start(s *Stream) {
	if n := len(c.idle); n > 0 {
		s.co, c.idle = c.idle[n-1], c.idle[:n-1]
	} else {
		s.co = newCoroutine()
	}
	s.co.s = s
	c.run(s)
}

// run lets a coroutine go on until it waits.
func (c *conn) run(s *Stream) {
	co := s.co
	co.next()
	if co.s != nil {
		return
	}
	s.co = nil
	if co.left {
		c.left.Add(1)
		dispatch(s)
	}
	if len(c.idle) < maxIdle {
		c.idle = append(c.idle, co)
		return
	}
	co.stop()
}

// serve runs the stream's step. It returns true if the rest is for a goroutine.
func (s *Stream) serve() (leaves bool) {
	err := s.step()
	if l, ok := errors.AsType[*stream.Leaving](err); ok {
		s.step = l.Rest
		return true
	}
	s.finish(err)
	return false
}

// dispatch serves the rest of a stream in a goroutine: one that has served others, whose stack has grown, where one waits.
func dispatch(s *Stream) {
	select {
	case idle <- s:
	default:
		go serveAll(s)
	}
}

var (
	idle      = make(chan *Stream)
	idleSlots = make(chan struct{}, maxIdle)
)

func serveAll(s *Stream) {
	for {
		s.serve()
		s.c.left.Done()
		select {
		case idleSlots <- struct{}{}:
			s = <-idle
			<-idleSlots
		default:
			return
		}
	}
}
