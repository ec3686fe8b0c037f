package extproc

import (
	"errors"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
)

// How a request's body comes in: how long that may take, and how much memory all bodies may take together.

// bodies counts the bytes that request bodies take, from their first piece to the end of their requests.
type bodies struct{ held atomic.Int64 }

// take counts n bytes more, unless that would be more than most; 0 means no bound.
func (b *bodies) take(n, most int64) bool {
	for {
		held := b.held.Load()
		if most > 0 && held+n > most {
			return false
		}
		if b.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// give is the other end of take.
func (b *bodies) give(n int64) { b.held.Add(-n) }

// The sizes of buffers that are kept for later requests.
const (
	minPooledBody = 64 << 10
	maxPooledBody = 32 << 20
	pooledSizes   = 10 // powers of two
	roundedBody   = 1 << 20
)

// bodyPools hold buffers of minPooledBody << i bytes, and less than twice that.
var bodyPools [pooledSizes]sync.Pool

// takeBody is an empty buffer with room for n bytes. Small ones are made of few sizes; a large one is new memory for which no other has
// a use, so it is as long as it has to be.
func takeBody(n int) *[]byte {
	n = max(n, minPooledBody)
	i := log2(2*n-1) - log2(minPooledBody) // the next power of two
	if i < pooledSizes {
		if b, ok := bodyPools[i].Get().(*[]byte); ok {
			return b
		}
	}
	if n <= roundedBody {
		n = minPooledBody << i
	}
	return newBody(n)
}

func newBody(n int) *[]byte {
	b := make([]byte, 0, n)
	return &b
}

// putBody keeps a buffer for later, unless it is too large for that. It is forgotten when no request has needed it for a while.
func putBody(b *[]byte) {
	n := cap(*b)
	if n < minPooledBody || n > maxPooledBody {
		return
	}
	*b = (*b)[:0]
	bodyPools[log2(n)-log2(minPooledBody)].Put(b)
}

// log2 is rounded down.
func log2(n int) int { return bits.Len64(uint64(n)) - 1 } //nolint:gosec // a size is positive

// upload is a request's body on its way in. Memory is taken as bytes come, whatever length was announced: a client that announces
// much and sends nothing holds nothing.
type upload struct {
	x         *exchange
	buf       *[]byte // nil until the first piece; pooled
	held      int64   // of the gateway's bound
	announced int
	deadline  time.Time    // of the whole body; zero: none
	late      *fault.Fault // what the client was told because the body was late
}

// receive reads the request's body, which stays valid until the exchange is closed.
func (x *exchange) receive(d stream.Client) ([]byte, error) {
	u := &x.body
	u.x, u.announced = x, x.announced()
	if int64(u.announced) > x.maxBody() {
		return nil, x.tooLarge()
	}
	if most := x.rt.MaxBodies; most > 0 && x.gw.bodies.held.Load() >= most {
		return nil, overloaded()
	}
	if total := x.rt.Timeouts.UploadTotal; total > 0 {
		u.deadline = time.Now().Add(total)
	}
	switch err := d.RequestBody(u); {
	case errors.Is(err, stream.ErrAnswered):
		return nil, answeredError{u.late}
	case err != nil:
		return nil, err
	}
	x.arrived = time.Now()
	return u.bytes(), nil
}

// announced is the length that the request claims to have, 0 without a claim.
func (x *exchange) announced() int {
	n, err := strconv.Atoi(x.head.Header.Get("content-length"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// maxBody is the largest body of one request.
func (x *exchange) maxBody() int64 {
	if most := x.rt.MaxBodies; most > 0 {
		return min(x.rt.MaxBody, most)
	}
	return x.rt.MaxBody
}

func (x *exchange) tooLarge() error {
	return fault.Newf(fault.TooLarge, "the request is larger than %d bytes, this gateway's limit", x.maxBody())
}

// overloadedTime is when a client comes again that found no room for its body.
const overloadedTime = 2 * time.Second

func overloaded() error {
	f := fault.Newf(fault.Overloaded, "the bodies of the requests under way take all the memory that they may have: try again shortly")
	f.RetryAfter = overloadedTime
	return f
}

// bytes is what has come.
func (u *upload) bytes() []byte {
	if u.buf == nil {
		return nil
	}
	return *u.buf
}

// Add implements stream.RequestBody.
func (u *upload) Add(piece []byte) error {
	need := len(u.bytes()) + len(piece)
	if int64(need) > u.x.maxBody() {
		return u.x.tooLarge()
	}
	if u.buf == nil || need > cap(*u.buf) {
		if err := u.grow(need); err != nil {
			return err
		}
	}
	*u.buf = append(*u.buf, piece...)
	return nil
}

// maxAhead is how many times of what has come a buffer has room for, where that much was announced.
const maxAhead = 4

// room is how large the next buffer of a body is that has need bytes: a power of two, which later bodies can use, until it is the last.
func (u *upload) room(need int) int {
	most := int(u.x.maxBody())
	if u.announced >= need {
		most = min(most, u.announced)
		return min(most, 1<<log2(maxAhead*need))
	}
	return min(most, 1<<log2(2*need))
}

// grow makes room for need bytes and for more to come: for a quarter more at least, so that what is copied stays in proportion.
func (u *upload) grow(need int) error {
	buf := takeBody(u.room(need))
	if !u.claim(buf) {
		putBody(buf)
		if buf = newBody(need + need/4); !u.claim(buf) {
			return overloaded()
		}
	}
	if u.buf != nil {
		*buf = append(*buf, *u.buf...)
		putBody(u.buf)
	}
	u.buf = buf
	return nil
}

// claim counts a buffer in the place of the one that there is.
func (u *upload) claim(buf *[]byte) bool {
	more := int64(cap(*buf)) - u.held
	if !u.x.gw.bodies.take(more, u.x.rt.MaxBodies) {
		return false
	}
	u.held += more
	return true
}

// release gives the memory back. Nothing may read the body any more.
func (u *upload) release() {
	if u.buf == nil {
		return
	}
	putBody(u.buf)
	u.x.gw.bodies.give(u.held)
	u.buf, u.held = nil, 0
}

// Wait implements stream.RequestBody.
func (u *upload) Wait() time.Duration {
	idle := u.x.rt.Timeouts.UploadIdle
	if u.deadline.IsZero() {
		return idle
	}
	left := max(time.Until(u.deadline), 1)
	if idle == 0 {
		return left
	}
	return min(idle, left)
}

// TimedOut implements stream.RequestBody.
func (u *upload) TimedOut(send func(stream.Reply) error) {
	defer u.x.contain()
	_ = send(u.giveUp()) // a client that disconnected needs no answer
}

// giveUp is what a client is told whose body is late.
func (u *upload) giveUp() stream.Reply {
	t := &u.x.rt.Timeouts
	u.late = fault.Newf(fault.RequestTimeout, "the request's body did not come in time: nothing of it for %s", t.UploadIdle)
	if !u.deadline.IsZero() && !time.Now().Before(u.deadline) {
		u.late = fault.Newf(fault.RequestTimeout, "the request's body did not come in time: it was not complete after %s", t.UploadTotal)
	}
	r := u.x.errorReply(u.late)
	r.Header = u.x.shared(r.Header)
	return r
}

// answeredError is a fault that its client has been told.
type answeredError struct{ told *fault.Fault }

// Error is for logs.
func (e answeredError) Error() string { return e.told.Error() }

// Unwrap is the fault.
func (e answeredError) Unwrap() error { return e.told }
