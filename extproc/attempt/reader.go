package attempt

import (
	"errors"
	"io"
	"time"
)

// PanicError is a panic in a goroutine that works for a request. The request ends with it; no other candidate is called.
type PanicError struct{ Cause error }

// Error is for logs.
func (e PanicError) Error() string { return e.Cause.Error() }

// Unwrap is the fault that the client is told.
func (e PanicError) Unwrap() error { return e.Cause }

// IsPanic reports whether an error is a panic.
func IsPanic(err error) bool {
	_, ok := errors.AsType[PanicError](err)
	return ok
}

// chunk is a piece of a provider's body. The last one has end set, and err if the body ended with an error.
type chunk struct {
	b   []byte
	end bool
	err error
}

// reader reads a body in its own goroutine, so that its owner can wait for other things, too. A chunk is valid until the next one is received.
type reader struct {
	chunks  chan chunk
	body    io.ReadCloser
	done    chan struct{}
	onPanic func(any) error // notes a panic
}

// A stream's pieces are small; one whose pieces fill a buffer gets larger ones.
const (
	firstReadSize = 4 << 10
	readSize      = 16 << 10
)

func newReader(body io.ReadCloser, caught func(any) error) *reader {
	r := &reader{chunks: make(chan chunk), body: body, done: make(chan struct{}), onPanic: caught}
	go r.run()
	return r
}

func (r *reader) run() {
	defer func() {
		if p := recover(); p != nil {
			r.send(chunk{end: true, err: PanicError{r.onPanic(p)}})
		}
	}()
	var bufs [2][]byte
	size := firstReadSize
	for i := 0; ; i++ {
		if len(bufs[i%2]) < size {
			bufs[i%2] = make([]byte, size)
		}
		b := bufs[i%2]
		n, err := r.body.Read(b)
		if n == size {
			size = readSize
		}
		c := chunk{b: b[:n], end: err != nil}
		if err != nil && !errors.Is(err, io.EOF) {
			c.err = err
		}
		if !r.send(c) || err != nil {
			return
		}
	}
}

// send passes a chunk to the receiver; false if the reader was closed.
func (r *reader) send(c chunk) bool {
	select {
	case r.chunks <- c:
		return true
	case <-r.done:
		return false
	}
}

// maxEndLag is how long the end of a body is awaited after its last event.
const maxEndLag = 250 * time.Millisecond

// finish reads a body to its end after the answer is complete: otherwise the connection is closed instead of reused.
func (r *reader) finish() {
	late := time.NewTimer(maxEndLag)
	defer late.Stop()
	for {
		select {
		case c := <-r.chunks:
			if c.end {
				return
			}
		case <-late.C:
			return
		}
	}
}

// close stops reading and closes the connection.
func (r *reader) close() {
	close(r.done)
	_ = r.body.Close() // nothing is lost: the answer is complete, or given up
}
