package attempt

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A call waits for its provider in the goroutine of the request, since each change of goroutines costs a stream as much as reading a piece of it. Beside it a
// second goroutine waits for everything else. What this finds it does between two pieces, or it ends the context of the attempt, and with it the wait.

// watch is what the two share.
type watch struct {
	mu   sync.Mutex
	over bool // the answer is complete, or given up: nothing is done between its pieces
	left bool // the client has disconnected, and only the usage is read
	sink Sink // nil before the answer begins
	stop chan struct{}
}

// run sends heartbeats and sees a client disconnect, until the attempt is over.
func (c *call) run() {
	defer func() {
		if r := recover(); r != nil {
			c.cancel(PanicError{c.w.Owner.Panicked(r)})
		}
	}()
	for {
		select {
		case <-c.stop:
			return
		case <-c.beats:
			if err := c.beat(); err != nil {
				c.cancel(err)
			}
		case <-c.client.Done():
			if c.leaves() {
				c.awaitUsage()
			}
			c.cancel(context.Cause(c.client))
			return
		}
	}
}

// beat sends a heartbeat, unless the attempt is over.
func (c *call) beat() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	return c.wait.OnHeartbeat()
}

// leaves notes a client disconnect. It reports whether the answer is read on, since it has ended and only its usage is missing: hidden reasoning is billed by it,
// and it comes last.
func (c *call) leaves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = !c.over && c.sink != nil && c.sink.LacksUsage()
	return c.left
}

// awaitUsage gives the provider time to send the usage.
func (c *call) awaitUsage() {
	late := time.NewTimer(maxUsageLag)
	defer late.Stop()
	select {
	case <-c.stop:
	case <-late.C:
	}
}

// begins lets run see the answer: whether it lacks only its usage.
func (c *call) begins(sink Sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sink = sink
}

// ends has run do nothing more for the answer: it is complete, or given up.
func (c *call) ends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// chunk is a piece of a provider's body. The last one has end set, and err if the body ended with an error.
type chunk struct {
	b   []byte
	end bool
	err error
}

// A stream's pieces are small; one whose pieces fill a buffer gets larger ones.
const (
	firstReadSize = 4 << 10
	readSize      = 16 << 10
)

// next reads a chunk, which is valid until the next one.
func (c *call) next(body io.Reader) chunk {
	switch {
	case c.buf == nil:
		c.buf = make([]byte, firstReadSize)
	case c.filled && len(c.buf) < readSize:
		c.buf = make([]byte, readSize)
	}
	n, err := body.Read(c.buf)
	c.filled = n == len(c.buf)
	p := chunk{b: c.buf[:n], end: err != nil}
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return p
}

// maxEndLag is how long the end of a body is awaited after its last event.
const maxEndLag = 250 * time.Millisecond

// finish reads a body to its end after the answer is complete: otherwise the connection is closed instead of reused.
func (c *call) finish(body io.Reader) {
	c.ends()
	late := time.AfterFunc(maxEndLag, func() { c.cancel(nil) })
	defer late.Stop()
	for !c.next(body).end {
	}
}
