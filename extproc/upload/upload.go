// Package upload is how a request's body comes in: how long that may take, and how much memory all bodies may take together. It knows nothing
// of what a body says.
package upload

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/buffers"
	"bardo.money/gateway/internal/fault"
)

// Memory counts the bytes that request bodies take, from their first piece to the end of their requests. Safe for concurrent use.
type Memory struct{ held atomic.Int64 }

// Held is how many bytes are taken now.
func (m *Memory) Held() int64 { return m.held.Load() }

// take counts n bytes more, unless that would be more than most; 0 means no bound.
func (m *Memory) take(n, most int64) bool {
	for {
		held := m.held.Load()
		if most > 0 && held+n > most {
			return false
		}
		if m.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// release gives n bytes back.
func (m *Memory) release(n int64) { m.held.Add(-n) }

// Limits are those of one request's body. But for Body, zero means no bound.
type Limits struct {
	Body   int64         // bytes of this one
	Bodies int64         // bytes of all bodies together
	Idle   time.Duration // between two pieces, and until the first
	Total  time.Duration // for the whole body
}

// max is the largest body of one request.
func (l *Limits) max() int64 {
	if l.Bodies > 0 {
		return min(l.Body, l.Bodies)
	}
	return l.Body
}

func (l *Limits) tooLarge() error {
	return fault.Newf(fault.TooLarge, "the request is larger than %d bytes, this gateway's limit", l.max())
}

// Body is a request's body on its way in. Memory is taken as bytes come, whatever length was announced: a client that announces much and
// sends nothing holds nothing. Not safe for concurrent use.
type Body struct {
	Memory *Memory
	Limits Limits
	// TimeoutReply answers a client whose body is late. It runs on a goroutine of its own, while nothing else uses the body, and contains its
	// own panics.
	TimeoutReply func(f *fault.Fault, send func(stream.Reply) error)

	buf       *[]byte // nil until the first piece; pooled
	held      int64   // of Memory
	announced int
	deadline  time.Time    // of the whole body; zero: none
	timeout   *fault.Fault // what the client was told because the body was late
}

var _ stream.RequestBody = (*Body)(nil)

// Receive reads the body of a request with head hd, which stays valid until Release. The error is an AnsweredError where the client has
// its answer already.
func (b *Body) Receive(d stream.Client, hd *stream.Head) ([]byte, error) {
	b.announced = announced(hd)
	if int64(b.announced) > b.Limits.max() {
		return nil, b.Limits.tooLarge()
	}
	if most := b.Limits.Bodies; most > 0 && b.Memory.Held() >= most {
		return nil, overloaded()
	}
	if b.Limits.Total > 0 {
		b.deadline = time.Now().Add(b.Limits.Total)
	}
	switch err := d.RequestBody(b); {
	case errors.Is(err, stream.ErrAnswered):
		return nil, AnsweredError{b.timeout}
	case err != nil:
		return nil, err
	}
	return b.bytes(), nil
}

// announced is the length that a request claims to have, 0 without a claim.
func announced(hd *stream.Head) int {
	n, err := strconv.Atoi(hd.Header.Get("content-length"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// overloadedTime is when a client comes again that found no room for its body.
const overloadedTime = 2 * time.Second

func overloaded() error {
	f := fault.Newf(fault.Overloaded, "the bodies of the requests under way take all the memory that they may have: try again shortly")
	f.RetryAfter = overloadedTime
	return f
}

// bytes is what has come.
func (b *Body) bytes() []byte {
	if b.buf == nil {
		return nil
	}
	return *b.buf
}

// Len is how many bytes have come.
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

// maxAhead is how many times of what has come a buffer has room for, where that much was announced.
const maxAhead = 4

// room is how large the next buffer of a body is that has need bytes: a power of two, which later bodies can use, until it is the last.
func (b *Body) room(need int) int {
	most := int(b.Limits.max())
	if b.announced >= need {
		most = min(most, b.announced)
		return min(most, 1<<buffers.Log2(maxAhead*need))
	}
	return min(most, 1<<buffers.Log2(2*need))
}

// grow makes room for need bytes and for more to come: for a quarter more at least, so that what is copied stays in proportion.
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

// claim counts a buffer in the place of the one that there is.
func (b *Body) claim(buf *[]byte) bool {
	more := int64(cap(*buf)) - b.held
	if !b.Memory.take(more, b.Limits.Bodies) {
		return false
	}
	b.held += more
	return true
}

// Release gives the memory back. Nothing may read the body any more.
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
	b.timeout = b.timeoutFault()
	b.TimeoutReply(b.timeout, send)
}

// timeoutFault is what a client is told whose body is late.
func (b *Body) timeoutFault() *fault.Fault {
	if !b.deadline.IsZero() && !time.Now().Before(b.deadline) {
		return fault.Newf(fault.RequestTimeout, "the request's body did not come in time: it was not complete after %s", b.Limits.Total)
	}
	return fault.Newf(fault.RequestTimeout, "the request's body did not come in time: nothing of it for %s", b.Limits.Idle)
}

// AnsweredError is a fault that its client has been told.
type AnsweredError struct{ Fault *fault.Fault }

// Error is for logs.
func (e AnsweredError) Error() string { return e.Fault.Error() }

// Unwrap is the fault.
func (e AnsweredError) Unwrap() error { return e.Fault }
