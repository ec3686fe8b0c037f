// Package upload receives a request's body, or a message of a connection, with limits on its time, its size, and the memory of all bodies together. It does not
// know the content of a body.
package upload

import (
	"errors"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/buffers"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/guard"
)

// Memory counts the bytes that request bodies use, from their first piece to the end of their requests. Safe for concurrent use.
type Memory struct{ held atomic.Int64 }

// Held returns the number of bytes in use.
func (m *Memory) Held() int64 { return m.held.Load() }

// take adds n bytes, unless that would exceed limit; 0 means no limit.
func (m *Memory) take(n, limit int64) bool {
	if n == 0 {
		return true
	}
	for {
		held := m.held.Load()
		if limit > 0 && held+n > limit {
			return false
		}
		if m.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// release subtracts n bytes.
func (m *Memory) release(n int64) { m.held.Add(-n) }

// Limits are those of one request's body. Except for Body, zero means no limit.
type Limits struct {
	Body   int64         // of this body
	Bodies int64         // of all bodies together
	Free   int64         // of this body, not counted in Bodies: there is always room for a short message
	Idle   time.Duration // between two pieces, and until the first
	Total  time.Duration // for the whole body
}

// max returns the maximum size of one request's body.
func (l *Limits) max() int64 {
	if l.Bodies > 0 {
		return min(l.Body, l.Bodies)
	}
	return l.Body
}

func (l *Limits) tooLarge() error {
	return fault.Newf(fault.TooLarge, "the request is larger than %d bytes, this gateway's limit", l.max())
}

// Body is a request's body being received. Memory is allocated as bytes arrive, not as announced: a client that announces much and sends nothing uses
// none. Not safe for concurrent use.
type Body struct {
	Memory *Memory
	Limits Limits
	// TimeoutReply answers a client whose body timed out. It runs on a goroutine of its own, while nothing else uses the body, and recovers its own
	// panics.
	TimeoutReply func(f *fault.Fault, send func(stream.Reply) error)

	buf       *[]byte // nil until the first piece; pooled
	held      int64   // bytes counted in Memory
	announced int
	deadline  time.Time    // for the whole body; zero: none
	timeout   *fault.Fault // the fault that was sent because the body timed out
}

var _ stream.RequestBody = (*Body)(nil)

// Receive reads the body of a request with head hd, which stays valid until Release. The error is an AnsweredError if the client was answered
// already.
func (b *Body) Receive(d stream.Client, hd *stream.Head) ([]byte, error) {
	b.announced = announced(hd)
	if int64(b.announced) > b.Limits.max() {
		return nil, b.Limits.tooLarge()
	}
	if err := b.start(); err != nil {
		return nil, err
	}
	switch err := d.RequestBody(b); {
	case errors.Is(err, stream.ErrAnswered):
		return nil, AnsweredError{b.timeout}
	case err != nil:
		return nil, err
	}
	return b.bytes(), nil
}

// start refuses a body for which there is no memory, and starts its time.
func (b *Body) start() error {
	if limit := b.Limits.Bodies; limit > 0 && b.Limits.Free == 0 && b.Memory.Held() >= limit {
		return overloaded()
	}
	if b.Limits.Total > 0 {
		b.deadline = time.Now().Add(b.Limits.Total)
	}
	return nil
}

// pieceSize is the size of the pieces in which messages are read.
const pieceSize = 16 << 10

// ReadMessage reads a message that has begun to arrive, which stays valid until Release; then the body can read another one. If the message is not complete in
// time late is called, on a goroutine of its own: it has to end r, which nothing else does.
func (b *Body) ReadMessage(r io.Reader, late func(f *fault.Fault)) ([]byte, error) {
	if err := b.start(); err != nil {
		return nil, err
	}
	var timer *time.Timer
	if b.Wait() > 0 {
		limits, deadline := b.Limits, b.deadline // the function may run later than this reading
		timer = time.AfterFunc(b.Wait(), guard.Func(func() { late(timeoutFault("message", &limits, deadline)) }))
		defer timer.Stop()
	}
	piece := buffers.Get(pieceSize)
	defer buffers.Put(piece)
	for {
		n, err := r.Read((*piece)[:pieceSize])
		if n > 0 {
			if timer != nil {
				timer.Reset(b.Wait())
			}
			if err := b.Add((*piece)[:n]); err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return b.bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

// announced returns the length that a request announces, 0 for none.
func announced(hd *stream.Head) int {
	n, err := strconv.Atoi(hd.Header.Get("content-length"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// overloadedTime is the Retry-After if there is no memory for a body.
const overloadedTime = 2 * time.Second

func overloaded() error {
	f := fault.Newf(fault.Overloaded, "the bodies of the requests in flight use all the memory allowed for them: try again shortly")
	f.RetryAfter = overloadedTime
	return f
}

// bytes returns what was received.
func (b *Body) bytes() []byte {
	if b.buf == nil {
		return nil
	}
	return *b.buf
}

// Len returns the number of received bytes.
func (b *Body) Len() int { return len(b.bytes()) }

// Add implements stream.RequestBody.
func (b *Body) Add(piece []byte) error {
	need := len(b.bytes()) + len(piece)
	if int64(need) > b.Limits.max() {
		return b.Limits.tooLarge()
	}
	if b.buf == nil || need > cap(*b.buf) {
		if err := b.grow(need); err != nil {
			return err
		}
	}
	*b.buf = append(*b.buf, piece...)
	return nil
}

// maxAhead is the maximum ratio of a buffer's size to the received bytes, if that much was announced.
const maxAhead = 4

// room returns the size of the next buffer of a body with need bytes: a power of two, which later bodies can reuse, unless it is the last.
func (b *Body) room(need int) int {
	maxSize := int(b.Limits.max())
	if b.announced >= need {
		maxSize = min(maxSize, b.announced)
		return min(maxSize, 1<<buffers.Log2(maxAhead*need))
	}
	return min(maxSize, 1<<buffers.Log2(2*need))
}

// grow makes room for need bytes and more: at least a quarter, so that copying stays proportional.
func (b *Body) grow(need int) error {
	buf := buffers.Get(b.room(need))
	if !b.claim(buf) {
		buffers.Put(buf)
		if buf = buffers.New(need + need/4); !b.claim(buf) {
			return overloaded()
		}
	}
	if b.buf != nil {
		*buf = append(*buf, *b.buf...)
		buffers.Put(b.buf)
	}
	b.buf = buf
	return nil
}

// claim counts a buffer that replaces the current one.
func (b *Body) claim(buf *[]byte) bool {
	more := max(int64(cap(*buf))-b.Limits.Free, 0) - b.held
	if !b.Memory.take(more, b.Limits.Bodies) {
		return false
	}
	b.held += more
	return true
}

// Release returns the memory. Nothing may read the body afterwards.
func (b *Body) Release() {
	if b.buf == nil {
		return
	}
	buffers.Put(b.buf)
	b.Memory.release(b.held)
	b.buf, b.held = nil, 0
}

// Wait implements stream.RequestBody.
func (b *Body) Wait() time.Duration {
	idle := b.Limits.Idle
	if b.deadline.IsZero() {
		return idle
	}
	left := max(time.Until(b.deadline), 1)
	if idle == 0 {
		return left
	}
	return min(idle, left)
}

// TimedOut implements stream.RequestBody.
func (b *Body) TimedOut(send func(stream.Reply) error) {
	b.timeout = timeoutFault("request's body", &b.Limits, b.deadline)
	b.TimeoutReply(b.timeout, send)
}

// timeoutFault returns the fault for a client whose body, or message, timed out.
func timeoutFault(what string, l *Limits, deadline time.Time) *fault.Fault {
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return fault.Newf(fault.RequestTimeout, "the %s did not come in time: it was not complete after %s", what, l.Total)
	}
	return fault.Newf(fault.RequestTimeout, "the %s did not come in time: nothing of it for %s", what, l.Idle)
}

// AnsweredError is a fault that was already sent to the client.
type AnsweredError struct{ Fault *fault.Fault }

// Error returns the message for logs.
func (e AnsweredError) Error() string { return e.Fault.Error() }

// Unwrap returns the fault.
func (e AnsweredError) Unwrap() error { return e.Fault }
