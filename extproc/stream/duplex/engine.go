package duplex

import (
	"errors"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
)

// Streams do not go on where something has come for them, but together, before the next read from the socket: each step of a request is the same code
// for one after the other, which the processor still has in its caches.

// start serves a stream in a coroutine, which it gets when it is its turn: with many streams at once a few coroutines are enough.
func (c *conn) start(s *Stream) {
	s.unbegun = true
	c.defers(s)
}

// defers lets a stream go on before the next read.
func (c *conn) defers(s *Stream) {
	if !s.deferred {
		s.deferred = true
		c.ready = append(c.ready, s)
	}
}

// batchSize is how many streams run in a row, at most.
const batchSize = 16

// goOn lets all streams go on for which something has come: some of them to the place where the first one lets the others have their turn, then all of
// these to the next one.
func (c *conn) goOn() {
	for len(c.ready) > 0 {
		c.several = len(c.ready) > 1
		for n := 0; n < batchSize && len(c.ready) > 0; n++ {
			s := c.ready[0]
			c.ready[0], c.ready = nil, c.ready[1:]
			s.deferred = false
			if s.unbegun {
				s.unbegun, s.co = false, c.pool.Take(s)
			}
			if s.co != nil {
				c.run(s)
			}
		}
		for len(c.turns) > 0 {
			all := c.turns
			c.turns = nil
			for _, s := range all {
				s.waitsForTurn = false
				c.run(s)
			}
		}
		c.several = false
		c.flushLarge()
	}
}

// Turn lets the other streams that go on at this moment come as far as this one. It returns at once where there are none.
func (s *Stream) Turn() {
	if s.co == nil || !s.c.several {
		return
	}
	s.waitsForTurn = true
	s.c.turns = append(s.c.turns, s)
	for s.waitsForTurn {
		s.co.Wait()
	}
}

// run lets a stream's coroutine go on until it waits.
func (c *conn) run(s *Stream) {
	c.thread.Enter()
	state := c.pool.Run(s.co)
	c.thread.Exit()
	if state == coroutine.Waits {
		return
	}
	s.co = nil
	if state == coroutine.Leaves {
		c.left.Add(1)
		coroutine.Dispatch(s)
	}
}

// Serve implements coroutine.Task. It is not for users of the stream.
func (s *Stream) Serve() (leaves bool) {
	if s.co == nil {
		defer s.c.left.Done()
	}
	err := s.step()
	if l, ok := errors.AsType[*stream.Leaving](err); ok {
		s.step = l.Rest
		return true
	}
	s.c.mu.Lock()
	s.release()
	s.c.mu.Unlock()
	s.finish(err)
	return false
}
