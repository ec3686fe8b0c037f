package duplex

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"bardo.money/gateway/extproc/stream/coroutine"
)

// conn is one connection. Its goroutine reads frames and runs coroutines.
type conn struct {
	server *Server
	nc     net.Conn

	// Fields of the reading goroutine.
	frames   *http2.Framer
	headers  *hpack.Decoder
	opening  *Stream // whose headers are being read
	last     uint32  // the highest stream id of the client
	pool     coroutine.Pool
	batch    coroutine.Batch[*member]
	thread   *coroutine.Thread
	received int // bytes to be returned to the client in the connection's window

	left sync.WaitGroup // streams in goroutines of their own

	mu       sync.Mutex
	streams  map[uint32]*Stream
	blocked  []*Stream // streams that wait for the connection's window
	window   int       // bytes that may be sent
	initial  int       // window of a new stream
	maxFrame int
	out      []byte // frames to write
	spare    []byte
	writing  bool
	ended    bool
}

const (
	readBuffer = 64 << 10
	// largeOutput is the amount of output, in bytes, that is written before all read frames are handled.
	largeOutput = 32 << 10
	// keptOutput is the maximum size of a buffer that is kept for later frames, in bytes.
	keptOutput = 256 << 10
	// maxHeaderBytes is the maximum size of a stream's headers.
	maxHeaderBytes = 64 << 10
	tableSize      = 4096 // of HPACK, RFC 7541
	// prefaceTimeout is the timeout for TLS and the first bytes of a client from the network.
	prefaceTimeout = 2 * time.Minute
)

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, streams: map[uint32]*Stream{}, window: 65535, initial: 65535, maxFrame: 16384}
	c.frames = http2.NewFramer(frameWriter{c}, bufio.NewReaderSize(source{c}, readBuffer))
	c.frames.SetReuseFrames()
	c.frames.SetMaxReadFrameSize(16384)
	c.headers = hpack.NewDecoder(tableSize, c.field)
	c.headers.SetMaxStringLength(maxHeaderBytes)
	return c
}

// source reads from the socket. Before each read it resumes the ready streams and flushes their output, so that nothing is pending while the
// goroutine blocks.
type source struct{ c *conn }

// Read implements io.Reader.
func (s source) Read(b []byte) (int, error) {
	s.c.resumeReady()
	s.c.flush()
	return s.c.nc.Read(b)
}

// frameWriter buffers the Framer's frames. Its caller holds the lock.
type frameWriter struct{ c *conn }

// Write implements io.Writer.
func (w frameWriter) Write(b []byte) (int, error) {
	w.c.out = append(w.c.out, b...)
	return len(b), nil
}

// write runs f, which writes frames, under the lock.
func (c *conn) write(f func(*http2.Framer) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = f(c.frames) // frameWriter does not fail, and the arguments are valid
}

// flush writes the pending output. If another goroutine is writing, that one writes this output as well.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.ended {
		b := c.out
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		_, err := c.nc.Write(b)
		c.mu.Lock()
		if err != nil {
			c.ended = true
			_ = c.nc.Close() // ends the reader
		}
		if cap(b) <= keptOutput {
			c.spare = b
		}
	}
	c.writing = false
}

func (c *conn) flushLarge() {
	c.mu.Lock()
	large := len(c.out) > largeOutput
	c.mu.Unlock()
	if large {
		c.flush()
	}
}

// serve reads until the connection ends, and returns when all its streams have ended.
func (c *conn) serve() {
	defer c.left.Wait()
	c.thread = c.server.Watchdog.Watch("Envoy's connection")
	defer c.thread.Forget()
	defer c.end()
	if !c.preface() {
		return
	}
	for {
		f, err := c.frames.ReadFrame()
		if stream, ok := errors.AsType[http2.StreamError](err); ok {
			c.resetStream(stream.StreamID, stream.Code)
			continue
		}
		if err == nil {
			err = c.handle(f)
		}
		if err != nil {
			c.goAway(err)
			return
		}
		c.flushLarge()
	}
}

// preface reads the client's preface and writes the server's.
func (c *conn) preface() bool {
	b := make([]byte, len(http2.ClientPreface))
	c.write(func(f *http2.Framer) error {
		_ = f.WriteSettings(
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaderBytes},
		)
		return f.WriteWindowUpdate(0, connWindow-65535)
	})
	if c.nc.SetReadDeadline(time.Now().Add(prefaceTimeout)) != nil {
		return false
	}
	if _, err := io.ReadFull(source{c}, b); err != nil {
		return false
	}
	return c.nc.SetReadDeadline(time.Time{}) == nil && string(b) == http2.ClientPreface
}

// end ends all streams.
func (c *conn) end() {
	_ = c.nc.Close()
	c.mu.Lock()
	c.ended = true
	all := make([]*Stream, 0, len(c.streams))
	for _, s := range c.streams {
		all = append(all, s)
	}
	c.mu.Unlock()
	for _, s := range all {
		s.disconnect()
	}
	c.resumeReady()
	c.pool.Close()
}

func (c *conn) goAway(err error) {
	code := http2.ErrCodeNo
	if e, ok := errors.AsType[http2.ConnectionError](err); ok {
		code = http2.ErrCode(e)
	} else if errors.Is(err, http2.ErrFrameTooLarge) {
		code = http2.ErrCodeFrameSize
	}
	c.write(func(f *http2.Framer) error { return f.WriteGoAway(c.last, code, nil) })
	c.flush()
}

func (c *conn) handle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.HeadersFrame:
		return c.open(f)
	case *http2.ContinuationFrame:
		return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.RSTStreamFrame:
		if s := c.stream(f.StreamID); s != nil {
			s.disconnect()
		}
	case *http2.WindowUpdateFrame:
		return c.enlarge(f.StreamID, int(f.Increment))
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.write(func(w *http2.Framer) error { return w.WritePing(true, f.Data) })
		}
	}
	return nil
}

func (c *conn) stream(id uint32) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// open begins a stream, or ends the client's half of one.
func (c *conn) open(f *http2.HeadersFrame) error {
	id := f.StreamID
	if s := c.stream(id); s != nil {
		c.opening = &Stream{id: id, trailers: s} // trailers carry no information
	} else {
		if id%2 == 0 || id <= c.last {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.last = id
		c.opening = newStream(c, id)
	}
	c.opening.halfClosed = f.StreamEnded()
	return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

// fragment reads a part of a stream's headers; the Framer enforces their order.
func (c *conn) fragment(b []byte, end bool) error {
	s := c.opening
	if s == nil {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s.headerBytes += len(b); s.headerBytes > maxHeaderBytes {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	if _, err := c.headers.Write(b); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if !end {
		return nil
	}
	if err := c.headers.Close(); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	c.opening = nil
	if s.trailers != nil {
		s.trailers.closeHalf()
		return nil
	}
	return c.begin(s)
}

// field records a header of the stream that is being opened: its method, and metadata other than HTTP's.
func (c *conn) field(f hpack.HeaderField) {
	s := c.opening
	switch {
	case f.Name == ":path":
		s.path = f.Value
	case strings.HasPrefix(f.Name, ":") || s.trailers != nil:
	default:
		s.metadata = append(s.metadata, [2]string{f.Name, f.Value})
	}
}

func (c *conn) begin(s *Stream) error {
	c.mu.Lock()
	n := len(c.streams)
	if n < maxStreams {
		c.streams[s.id] = s
		s.window = c.initial
	}
	c.mu.Unlock()
	if n >= maxStreams {
		c.resetStream(s.id, http2.ErrCodeRefusedStream)
		return nil
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.path != c.server.Path {
		s.finish(&Status{codes.Unimplemented, "there is no method " + s.path})
		return nil
	}
	c.batch.Begin((*member)(s))
	return nil
}

// resetStream refuses a stream, or data on it.
func (c *conn) resetStream(id uint32, code http2.ErrCode) {
	c.write(func(f *http2.Framer) error { return f.WriteRSTStream(id, code) })
	if s := c.stream(id); s != nil {
		s.disconnect()
	}
}

// data passes message data to its stream.
func (c *conn) data(f *http2.DataFrame) error {
	n := int(f.Length)
	if c.received += n; c.received >= connWindow/2 {
		back := uint32(c.received) //nolint:gosec // at most the window
		c.received = 0
		c.write(func(w *http2.Framer) error { return w.WriteWindowUpdate(0, back) })
	}
	s := c.stream(f.StreamID)
	if s == nil {
		if f.StreamID > c.last {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil // it has ended here
	}
	if err := s.add(f.Data(), n, f.StreamEnded()); err != nil {
		s.finish(err)
		s.disconnect()
	}
	return nil
}

// enlarge increases a stream's window, or the connection's.
func (c *conn) enlarge(id uint32, n int) error {
	c.mu.Lock()
	var ready []*Stream
	if id == 0 {
		c.window += n
		ready, c.blocked = c.blocked, nil
	} else if s := c.streams[id]; s != nil {
		s.window += n
		ready = []*Stream{s}
	}
	over := c.window > 1<<31-1
	for _, s := range ready {
		s.waiting = s.waiting && id != 0
		s.drain()
	}
	c.mu.Unlock()
	if over {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	for _, s := range ready {
		s.notify()
	}
	return nil
}

func (c *conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(v http2.Setting) error {
		if err := v.Valid(); err != nil {
			return err
		}
		switch v.ID { //nolint:exhaustive // the rest is about what this side does not send
		case http2.SettingInitialWindowSize:
			for _, s := range c.streams {
				s.window += int(v.Val) - c.initial
				s.drain()
			}
			c.initial = int(v.Val)
		case http2.SettingMaxFrameSize:
			c.maxFrame = int(v.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.frames.WriteSettingsAck()
}
