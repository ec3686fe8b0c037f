package attempt

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A call waits for its provider in the request's own goroutine, because each goroutine switch costs a stream as much as reading a chunk of it. A
// second goroutine waits for everything else. It acts between two chunks, or cancels the context of the attempt, which ends the wait.

// watch is the state that both share.
type watch struct {
	mu        sync.Mutex
	over      bool // the answer is complete or abandoned: nothing more is done between its chunks
	usageOnly bool // the client has disconnected, and only the usage is read
	sink      Sink // nil before the answer begins
	stop      chan struct{}
}

// run sends heartbeats and watches for a client disconnect, until the attempt is over.
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
			if c.disconnected() {
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

// disconnected records a client disconnect. It reports whether the answer is read on because it is complete except for its usage: hidden reasoning is
// billed by it, and it comes last.
func (c *call) disconnected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usageOnly = !c.over && c.sink != nil && c.sink.LacksUsage()
	return c.usageOnly
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

// begins makes the sink visible to run: whether it lacks only its usage.
func (c *call) begins(sink Sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sink = sink
}

// ends stops run from acting on the answer, which is complete or abandoned.
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

// A stream's chunks are small; once they fill a buffer, larger ones are used.
const (
	firstReadSize = 4 << 10
	readSize      = 16 << 10
)

// next reads a chunk, which is valid until the next call.
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
