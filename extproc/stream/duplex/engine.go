package duplex

import (
	"errors"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
)

// start serves a stream in a coroutine.
func (c *conn) start(s *Stream) {
	s.co = c.pool.Take(s)
	c.run(s)
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
