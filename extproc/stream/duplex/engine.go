package duplex

import (
	"errors"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
)

// resumeReady resumes all streams with new events: together, before the next read from the socket, and not on each event.
func (c *conn) resumeReady() {
	for {
		if _, ok := c.batch.Next(); !ok {
			return
		}
		c.batch.Run()
		c.flushLarge()
	}
}

// Turn lets the other streams that are being resumed reach the same step as this one. It returns immediately if there are none.
func (s *Stream) Turn() {
	if s.co != nil {
		s.c.batch.Turn((*member)(s), s.co)
	}
}

// member is a stream in the batch of its connection.
type member Stream

// Begin implements coroutine.Member: a stream gets its coroutine only when it begins, so that a few serve many concurrent streams.
func (m *member) Begin() {
	m.co = m.c.pool.Take((*Stream)(m))
	m.Resume()
}

// Resume implements coroutine.Member.
func (m *member) Resume() {
	if m.co != nil {
		m.c.run((*Stream)(m))
	}
}

// Place implements coroutine.Member.
func (m *member) Place() *coroutine.Place { return &m.place }

// run resumes a stream's coroutine until it waits.
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

// Serve implements coroutine.Task. Users of the stream do not call it.
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
