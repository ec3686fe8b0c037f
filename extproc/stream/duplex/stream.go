package duplex

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/internal/buffers"
)

// Stream is one call of the method. Its methods are for the coroutine or goroutine that serves it, unless stated otherwise.
type Stream struct {
	c        *conn
	id       uint32
	path     string
	metadata [][2]string
	ctx      context.Context
	cancel   context.CancelFunc
	step     func() error         // the function that serves it
	co       *coroutine.Coroutine // nil in a goroutine

	// Fields of the reading goroutine.
	headerBytes int
	trailers    *Stream // the stream that these headers end
	partial     []byte  // a message in part, with its prefix
	pooled      *[]byte // the pooled buffer of partial, for a long message
	large       bool    // its message exceeds the window
	unread      int     // bytes to be returned to the client's window

	place   coroutine.Place // state in the connection's batch
	message received        // the last result of Receive

	// Guarded by the connection's lock.
	queue        []received
	queued       int    // bytes in it
	free         []byte // a buffer for the next message
	halfClosed   bool   // no message follows
	disconnected bool
	window       int
	pending      []byte  // messages that exceed the windows, or need several frames
	pooledOut    *[]byte // the pooled buffer of pending, if it was long from the start
	sent         int     // part of pending that was sent
	waiting      bool    // it is in the connection's blocked
	begun        bool    // headers were sent
	last         []byte  // the frame that ends the stream, after pending
	note         chan struct{}
}

// received is a complete message.
type received struct {
	b      []byte
	pooled *[]byte // its pooled buffer, for a long message
	owed   int     // bytes that are returned to the client's window when the message is read
}

func newStream(c *conn, id uint32) *Stream {
	s := &Stream{c: c, id: id, note: make(chan struct{}, 1)}
	s.step = func() error { return c.server.Serve(s) }
	return s
}

// Context returns a context that ends when the client disconnects or the stream ends.
func (s *Stream) Context() context.Context { return s.ctx }

// Metadata returns the first value of a header of the call, or "".
func (s *Stream) Metadata(name string) string {
	for _, f := range s.metadata {
		if f[0] == name {
			return f[1]
		}
	}
	return ""
}

// Leave runs f, which may block on anything, and returns its error. In a coroutine it returns a *stream.Leaving instead, which Server.Serve must
// return.
func (s *Stream) Leave(f func() error) error {
	if s.co == nil {
		return f()
	}
	return &stream.Leaving{Rest: f}
}

// Receive waits for the next message, which is valid until the next call. After the client's last one it returns io.EOF.
func (s *Stream) Receive() ([]byte, error) {
	for {
		s.c.mu.Lock()
		switch {
		case len(s.queue) > 0:
			s.release()
			s.message = s.queue[0]
			s.queue[0] = received{}
			s.queue = s.queue[1:]
			s.queued -= len(s.message.b)
			s.returnWindow(s.message.owed)
			s.c.mu.Unlock()
			return s.message.b, nil
		case s.disconnected:
			s.c.mu.Unlock()
			return nil, ErrDisconnected
		case s.halfClosed:
			s.c.mu.Unlock()
			return nil, io.EOF
		}
		s.c.mu.Unlock()
		s.wait()
	}
}

// release recycles the buffer of the last result of Receive: a long message's for any stream, another's for this one. It runs under the lock, in what
// serves the stream.
func (s *Stream) release() {
	if s.message.pooled != nil {
		buffers.Put(s.message.pooled)
	} else if cap(s.message.b) > cap(s.free) {
		s.free = s.message.b
	}
	s.message = received{}
}

// longMessage is the minimum size, with prefix, of a message in a pooled buffer: larger than one of Envoy's frames.
const longMessage = 16 << 10

// returnWindow returns n bytes to the client's window, in batches. Under the lock.
func (s *Stream) returnWindow(n int) {
	if s.unread += n; s.unread < streamWindow/2 || s.halfClosed || s.disconnected {
		return
	}
	_ = s.c.frames.WriteWindowUpdate(s.id, uint32(s.unread)) //nolint:gosec // at most the window
	s.unread = 0
	if s.co == nil {
		defer s.flushLater()
	}
}

// flushLater writes pending output from a goroutine other than the connection's. The lock is held, and released for a moment.
func (s *Stream) flushLater() {
	s.c.mu.Unlock()
	s.c.flush()
	s.c.mu.Lock()
}

// wait waits for an event of the stream.
func (s *Stream) wait() {
	if s.co != nil {
		s.co.Wait()
		return
	}
	<-s.note
}

// notify resumes the stream. Called by the reading goroutine.
func (s *Stream) notify() {
	if s.co != nil || s.place.Ready() {
		s.c.batch.Add((*member)(s))
		return
	}
	select {
	case s.note <- struct{}{}:
	default:
	}
}

// disconnect records the client's disconnect. Called by the reading goroutine.
func (s *Stream) disconnect() {
	s.c.mu.Lock()
	s.disconnected = true
	s.sentAll()
	s.last = nil
	delete(s.c.streams, s.id)
	s.c.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	s.notify()
}

func (s *Stream) closeHalf() {
	s.c.mu.Lock()
	s.halfClosed = true
	s.c.mu.Unlock()
	s.notify()
}

// The prefix of a message: whether it is compressed, and its length.
const prefixSize = 5

// add receives message bytes. size is that of the frame, with padding.
func (s *Stream) add(b []byte, size int, end bool) error {
	now, whole := size-len(b), false
	for len(b) > 0 {
		n := s.missing(b)
		if len(s.partial) == 0 && n >= prefixSize && n <= len(b) { // the usual case: one message in one frame
			if err := s.check(b); err != nil {
				return err
			}
			s.push(b[prefixSize:n], n)
			b, whole = b[n:], true
			continue
		}
		n = min(n, len(b))
		s.keep(b[:n])
		b = b[n:]
		if len(s.partial) < prefixSize {
			continue
		}
		if err := s.check(s.partial); err != nil {
			return err
		}
		if messageSize(s.partial) > streamWindow/4 {
			now += n
			if !s.large { // everything that was received of it
				now += len(s.partial) - n
			}
			s.large = true
		}
		if len(s.partial) == prefixSize+messageSize(s.partial) {
			s.pushPartial()
			whole = true
		}
	}
	return s.added(now, whole, end)
}

// missing returns how many bytes are missing of the current message, or of its prefix. b begins with them.
func (s *Stream) missing(b []byte) int {
	switch {
	case len(s.partial) >= prefixSize:
		return prefixSize + messageSize(s.partial) - len(s.partial)
	case len(s.partial) == 0 && len(b) >= prefixSize:
		return prefixSize + messageSize(b)
	}
	return prefixSize - len(s.partial)
}

// keep appends to the incomplete message. A long one gets a buffer for its whole length, or for the window's size, which is doubled when full: an
// announced but unsent message uses little memory.
func (s *Stream) keep(b []byte) {
	need, all := len(s.partial)+len(b), 0
	if len(s.partial) >= prefixSize {
		all = prefixSize + messageSize(s.partial)
	} else if len(s.partial) == 0 && len(b) >= prefixSize {
		all = prefixSize + messageSize(b)
	}
	if all > longMessage && (s.pooled == nil || need > cap(s.partial)) {
		room := min(all, max(2*need, streamWindow))
		buf := buffers.Get(1 << buffers.Log2(2*room-1)) // the next power of two, so that the buffer can be shared
		s.partial = append(*buf, s.partial...)
		if s.pooled != nil {
			buffers.Put(s.pooled)
		}
		s.pooled = buf
	}
	s.partial = append(s.partial, b...)
}

func (s *Stream) pushPartial() {
	owed := len(s.partial)
	if s.large {
		owed = 0
	}
	if s.pooled == nil {
		s.push(s.partial[prefixSize:], owed)
		s.partial = s.partial[:0]
	} else {
		s.pushPooled(received{s.partial[prefixSize:], s.pooled, owed})
		s.partial, s.pooled = nil, nil
	}
	s.large = false
}

// added ends the reading of a frame, of which now bytes are returned to the client's window immediately.
func (s *Stream) added(now int, whole, end bool) error {
	s.c.mu.Lock()
	if end {
		s.halfClosed = true
	}
	if now > 0 {
		s.returnWindow(now)
	}
	tooMuch := s.queued > streamWindow+s.c.server.MaxMessage
	s.c.mu.Unlock()
	if tooMuch {
		return &Status{codes.ResourceExhausted, "more came than the window allows"}
	}
	if whole || end {
		s.notify()
	}
	return nil
}

func messageSize(b []byte) int { return int(binary.BigEndian.Uint32(b[1:prefixSize])) }

func (s *Stream) check(b []byte) error {
	switch {
	case b[0] != 0:
		return &Status{codes.Unimplemented, "compressed messages are not supported"}
	case messageSize(b) > s.c.server.MaxMessage:
		return &Status{codes.ResourceExhausted, fmt.Sprintf("a message of %d bytes, at most %d are allowed", messageSize(b), s.c.server.MaxMessage)}
	}
	return nil
}

// push copies a complete message into the queue. owed bytes are returned to the window when it is read.
func (s *Stream) push(b []byte, owed int) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.disconnected {
		return
	}
	own := s.free[:0]
	own, s.free = append(own, b...), nil
	s.queue = append(s.queue, received{b: own, owed: owed})
	s.queued += len(own)
}

// pushPooled appends a complete message in a pooled buffer to the queue.
func (s *Stream) pushPooled(r received) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.disconnected {
		buffers.Put(r.pooled)
		return
	}
	s.queue = append(s.queue, r)
	s.queued += len(r.b)
}

// Send sends a message of size bytes, which fill appends. It blocks while the client's window is full, and does not retain the message.
func (s *Stream) Send(size int, fill func([]byte) []byte) error {
	for {
		s.c.mu.Lock()
		if s.disconnected || len(s.pending) == 0 {
			break
		}
		s.c.mu.Unlock()
		s.wait()
	}
	err := s.put(size, fill)
	s.c.mu.Unlock()
	if err == nil && s.co == nil {
		s.c.flush()
	}
	return err
}

// SendNow is Send for any goroutine, while no other sends. It does not block.
func (s *Stream) SendNow(size int, fill func([]byte) []byte) error {
	s.c.mu.Lock()
	err := s.put(size, fill)
	s.c.mu.Unlock()
	s.c.flush()
	return err
}

// responseHeaders is ":status: 200" and "content-type: application/grpc", without HPACK's dynamic table: RFC 7541, appendix A and section 6.2.2.
const responseHeaders = "\x88\x0f\x10\x10application/grpc"

// put writes a message, and buffers what exceeds the windows. Under the lock.
func (s *Stream) put(size int, fill func([]byte) []byte) error {
	c := s.c
	if s.disconnected {
		return ErrDisconnected
	}
	if !s.begun {
		s.begun = true
		c.out = appendFrame(c.out, len(responseHeaders), http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id)
		c.out = append(c.out, responseHeaders...)
	}
	n := prefixSize + size
	if len(s.pending) == 0 && n <= min(s.window, c.window, c.maxFrame) {
		s.window, c.window = s.window-n, c.window-n
		c.out = appendFrame(c.out, n, http2.FrameData, 0, s.id)
		c.out = fill(appendPrefix(c.out, size))
		return nil
	}
	if len(s.pending) == 0 && n > longMessage {
		s.pooledOut = buffers.Get(n)
		s.pending = *s.pooledOut
	}
	s.pending = fill(appendPrefix(s.pending, size))
	s.drain()
	return nil
}

// keptPending is the maximum size of a buffer that is kept for pending output, in bytes.
const keptPending = 128 << 10

// sentAll empties pending. Under the lock.
func (s *Stream) sentAll() {
	switch {
	case s.pooledOut != nil:
		buffers.Put(s.pooledOut)
		s.pending, s.pooledOut = nil, nil
	case cap(s.pending) > keptPending:
		s.pending = nil
	}
	s.pending, s.sent = s.pending[:0], 0
}

// drain writes as much pending output as the windows allow, and then the end of the stream. Under the lock.
func (s *Stream) drain() {
	c := s.c
	for s.sent < len(s.pending) {
		n := min(len(s.pending)-s.sent, s.window, c.window, c.maxFrame)
		if n <= 0 {
			if c.window <= 0 && !s.waiting {
				s.waiting = true
				c.blocked = append(c.blocked, s)
			}
			return
		}
		c.out = appendFrame(c.out, n, http2.FrameData, 0, s.id)
		c.out = append(c.out, s.pending[s.sent:s.sent+n]...)
		s.window, c.window, s.sent = s.window-n, c.window-n, s.sent+n
	}
	s.sentAll()
	if s.last != nil {
		c.out = append(c.out, s.last...)
		s.last = nil
		delete(c.streams, s.id)
	}
}

func appendFrame(b []byte, n int, t http2.FrameType, flags http2.Flags, id uint32) []byte {
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(t), byte(flags)) //nolint:gosec // a length below the largest frame's
	return binary.BigEndian.AppendUint32(b, id)
}

func appendPrefix(b []byte, size int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(size)) //nolint:gosec // the length of a message
}

// finish ends the stream with a status.
func (s *Stream) finish(err error) {
	c := s.c
	c.mu.Lock()
	if !s.disconnected {
		s.disconnected = true
		s.last = s.appendLast(nil, statusOf(err))
		s.drain() // the connection keeps the stream until its end is sent
	}
	c.mu.Unlock()
	s.cancel()
	if s.co == nil {
		c.flush()
	}
}

func statusOf(err error) *Status {
	if err == nil {
		return &Status{}
	}
	if s, ok := errors.AsType[*Status](err); ok {
		return s
	}
	return &Status{codes.Unknown, err.Error()}
}

// appendLast appends the trailers, and a reset if the client may still send: RFC 9113, section 8.1.
func (s *Stream) appendLast(b []byte, st *Status) []byte {
	var block []byte
	if !s.begun {
		block = append(block, responseHeaders...)
	}
	block = appendField(block, "grpc-status", strconv.Itoa(int(st.Code)))
	if st.Message != "" {
		block = appendField(block, "grpc-message", percentEncode(st.Message))
	}
	b = appendFrame(b, len(block), http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, s.id)
	b = append(b, block...)
	if !s.halfClosed {
		b = appendFrame(b, 4, http2.FrameRSTStream, 0, s.id)
		b = binary.BigEndian.AppendUint32(b, uint32(http2.ErrCodeNo))
	}
	return b
}

// maxStatus is the maximum length of a status message, in bytes.
const maxStatus = 1024

// appendField appends a header outside HPACK's tables: RFC 7541, section 6.2.2.
func appendField(b []byte, name, value string) []byte {
	b = appendLiteral(append(b, 0), name)
	return appendLiteral(b, value)
}

// appendLiteral appends a string without Huffman coding: RFC 7541, sections 5.1 and 5.2.
func appendLiteral(b []byte, s string) []byte {
	n := len(s)
	if n < 127 {
		return append(append(b, byte(n)), s...)
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(append(b, byte(n)), s...)
}

// percentEncode encodes grpc-message as gRPC requires.
func percentEncode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && b.Len() < maxStatus; i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
