// Package duplex serves bidirectional gRPC streams of one method to few clients that hold connections with many streams each: Envoy's workers.
//
// The goroutine that reads a connection also runs its streams, as coroutines: a message is handed to its stream without a change of goroutines, and what
// the streams send while frames are read is written at once, before the next read from the socket. A server with a goroutine for each stream and one that
// writes wakes three threads for each message. A stream that has to wait for anything but its messages leaves that goroutine (Stream.Leave).
//
// The protocols are HTTP/2 (RFC 9113) with golang.org/x/net/http2 for reading frames, and gRPC over HTTP/2. Compressed messages are refused, deadlines of
// clients ignored: a client that gives up resets its stream.
package duplex

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/codes"

	"bardo.money/gateway/extproc/stream/coroutine"
)

// Server serves one method.
type Server struct {
	// Path is that of the method: "/package.Service/Method".
	Path string
	// Serve handles a stream. Its error ends the stream: nil as OK, a *Status as that, *stream.Leaving after Rest has run in a goroutine, others as
	// Unknown. It runs in a coroutine of the connection: see Stream.Leave. It does not panic.
	Serve func(*Stream) error
	// MaxMessage is the most bytes of a received message.
	MaxMessage int
	// Watchdog watches the goroutines that read connections.
	Watchdog *coroutine.Watchdog
}

// Limits of a connection: bytes that a client may send before they are read.
const (
	streamWindow = 1 << 20
	connWindow   = 8 << 20
	maxStreams   = 1 << 20
)

// Listen serves connections of l until ctx is done, then closes l and all connections and returns nil.
func (s *Server) Listen(ctx context.Context, l net.Listener) error {
	var open connections
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close()
		open.closeAll()
	})
	defer stop()
	defer open.wait()
	for {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = nc.Close()
			}
			return nil
		case isTemporary(err):
			continue
		case err != nil:
			open.closeAll()
			return err
		}
		open.serve(newConn(s, nc))
	}
}

// isTemporary reports whether the listener may accept again: a connection that was gone before it was accepted, or too many open files.
func isTemporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

// connections are those of one listener.
type connections struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
	group  sync.WaitGroup
}

func (o *connections) serve(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		_ = c.nc.Close()
		return
	}
	if o.open == nil {
		o.open = map[*conn]struct{}{}
	}
	o.open[c] = struct{}{}
	o.group.Go(func() {
		c.serve()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.open, c)
	})
}

func (o *connections) closeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for c := range o.open {
		_ = c.nc.Close()
	}
}

// wait returns when all connections and their streams have ended.
func (o *connections) wait() { o.group.Wait() }

// Status ends a stream with a gRPC status.
type Status struct {
	Code    codes.Code
	Message string
}

// Error implements error.
func (s *Status) Error() string { return s.Code.String() + ": " + s.Message }

// ErrGone is returned after the client reset the stream, or its connection ended.
var ErrGone = errors.New("the client is gone")
