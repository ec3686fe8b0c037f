// Package duplex serves bidirectional gRPC streams of one method to a few clients that hold connections with many streams each: Envoy's workers.
//
// The goroutine that reads a connection also runs its streams, as coroutines: a message reaches its stream without switching goroutines, and output
// that streams produce while frames are read is written together, before the next read from the socket. A server with one goroutine per stream and
// one for writing wakes three threads per message. A stream that blocks on anything but its messages leaves that goroutine (Stream.Leave).
//
// The protocols are HTTP/2 (RFC 9113), with golang.org/x/net/http2 for reading frames, and gRPC over HTTP/2. Compressed messages are refused, and
// clients' deadlines ignored: a client that gives up resets its stream.
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
	// Path is the method's path: "/package.Service/Method".
	Path string
	// Serve handles a stream. Its error ends the stream: nil with status OK, a *Status with that status, *stream.Leaving after Rest has run in a
	// goroutine, others with Unknown. It runs in a coroutine of the connection: see Stream.Leave. It does not panic.
	Serve func(*Stream) error
	// MaxMessage is the maximum size of a received message, in bytes.
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

// isTemporary reports whether the listener may accept again: the connection was closed before it was accepted, or too many files are open.
func isTemporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

// connections are the connections of one listener.
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

// ErrDisconnected is returned after the client reset the stream, or its connection ended.
var ErrDisconnected = errors.New("the client is gone")
