package duplex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // a client that compresses
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/internal/fault"
)

const method = "/test.Service/Method"

// raw is a codec of messages that are bytes.
type raw struct{}

var _ encoding.CodecV2 = raw{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T", v)
	}
	*b = data.Materialize()
	return nil
}

// networks are the kinds of sockets: Envoy on this machine uses a Unix socket, others use the network.
var networks = []string{"tcp", "unix"}

// serve serves f, and returns a client's connection.
func serve(t *testing.T, network string, f func(*Stream) error, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return serveWatched(t, network, f, unwatched(), opts...)
}

// unwatched returns a watchdog whose reports are dropped.
func unwatched() *coroutine.Watchdog {
	return coroutine.NewWatchdog(func(coroutine.Hold) {})
}

func serveWatched(t *testing.T, network string, f func(*Stream) error, w *coroutine.Watchdog, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- (&Server{Path: method, Serve: f, MaxMessage: 8 << 20, Watchdog: w}).Listen(ctx, l)
	}()
	target := "passthrough:" + l.Addr().String()
	if network == "unix" {
		target = "unix:" + address
	}
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(64<<20)))
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = cc.Close()
	})
	return cc
}

func call(ctx context.Context, t *testing.T, cc *grpc.ClientConn, opts ...grpc.CallOption) grpc.ClientStream {
	t.Helper()
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func send(s *Stream, b []byte) error {
	return s.Send(len(b), func(to []byte) []byte { return append(to, b...) })
}

// echo sends every message back.
func echo(s *Stream) error {
	for {
		b, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(s, b); err != nil {
			return err
		}
	}
}

// engine serves a stream in one of the two ways.
type engine func(func(*Stream) error) func(*Stream) error

var engines = map[string]engine{
	"coroutine": func(f func(*Stream) error) func(*Stream) error { return f },
	"goroutine": func(f func(*Stream) error) func(*Stream) error {
		return func(s *Stream) error { return s.Leave(func() error { return f(s) }) }
	},
}

// everywhere runs a test on each kind of socket, with each engine.
func everywhere(t *testing.T, test func(t *testing.T, network string, with engine)) {
	t.Helper()
	for _, network := range networks {
		for name, with := range engines {
			t.Run(network+" "+name, func(t *testing.T) { test(t, network, with) })
		}
	}
}

func TestMessagesOfAllSizesArriveBothWays(t *testing.T) {
	everywhere(t, func(t *testing.T, network string, with engine) {
		t.Helper()
		cc := serve(t, network, with(echo))
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				s := call(t.Context(), t, cc)
				for _, size := range []int{0, 1, 1000, 16379, 16380, 60 << 10, 1 << 20, 3 << 20} {
					want := bytes.Repeat([]byte{byte(i + 1)}, size)
					var got []byte
					if err := errors.Join(s.SendMsg(want), s.RecvMsg(&got)); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d bytes: %d came back, %v", size, len(got), err)
						return
					}
				}
				var got []byte
				if err := errors.Join(s.CloseSend(), s.RecvMsg(&got)); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v", err)
				}
			})
		}
		group.Wait()
	})
}

// A client that does not read blocks only its own stream, when the windows are full.
func TestAClientThatDoesNotReadIsWaitedFor(t *testing.T) {
	everywhere(t, func(t *testing.T, network string, with engine) {
		t.Helper()
		const pieces, size = 200, 20_000
		var mu sync.Mutex
		sent := 0
		progress := make(chan struct{}, pieces+1)
		cc := serve(t, network, with(func(s *Stream) error {
			if s.Metadata("echo") != "" {
				return echo(s)
			}
			for i := range pieces {
				if err := send(s, bytes.Repeat([]byte{byte(i)}, size)); err != nil {
					return err
				}
				mu.Lock()
				sent++
				mu.Unlock()
				progress <- struct{}{}
			}
			return nil
		}), grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(4<<20))
		s := call(t.Context(), t, cc)
		<-progress
		other := call(metadata.AppendToOutgoingContext(t.Context(), "echo", "1"), t, cc)
		var got []byte
		if err := errors.Join(other.SendMsg([]byte("x")), other.RecvMsg(&got)); err != nil || string(got) != "x" {
			t.Fatalf("beside it: %q, %v", got, err)
		}
		mu.Lock()
		if sent > 10 {
			t.Errorf("%d pieces were sent to a client with a window of 64 kB", sent)
		}
		mu.Unlock()
		for i := range pieces {
			var got []byte
			if err := s.RecvMsg(&got); err != nil || len(got) != size || got[0] != byte(i) {
				t.Fatalf("piece %d: %d bytes, %v", i, len(got), err)
			}
		}
		if err := s.RecvMsg(&got); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	})
}

func TestAClientThatResetsIsGone(t *testing.T) {
	everywhere(t, func(t *testing.T, network string, with engine) {
		t.Helper()
		began, ended := make(chan struct{}), make(chan error, 1)
		cc := serve(t, network, with(func(s *Stream) error {
			if s.Metadata("echo") != "" {
				return echo(s)
			}
			if _, err := s.Receive(); err != nil {
				return err
			}
			close(began)
			_, err := s.Receive()
			ended <- errors.Join(err, send(s, []byte("late")), context.Cause(s.Context()))
			return err
		}))
		ctx, cancel := context.WithCancel(t.Context())
		s := call(ctx, t, cc)
		if err := s.SendMsg([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-began
		cancel()
		if err := <-ended; !errors.Is(err, ErrDisconnected) || !errors.Is(err, context.Canceled) || strings.Count(err.Error(), ErrDisconnected.Error()) != 2 {
			t.Errorf("received: %v", err)
		}
		next := call(metadata.AppendToOutgoingContext(t.Context(), "echo", "1"), t, cc)
		var got []byte
		if err := errors.Join(next.SendMsg([]byte("x")), next.RecvMsg(&got)); err != nil {
			t.Errorf("the next stream: %v", err)
		}
	})
}

func TestAnErrorIsAStatus(t *testing.T) {
	everywhere(t, func(t *testing.T, network string, with engine) {
		t.Helper()
		for _, tt := range []struct {
			err  error
			code codes.Code
			text string
		}{
			{nil, codes.OK, ""},
			{&Status{codes.Internal, "50 % \n of ü"}, codes.Internal, "50 % \n of ü"},
			{errors.New(strings.Repeat("long", 1000)), codes.Unknown, strings.Repeat("long", maxStatus/4)},
			{fault.Newf(fault.InvalidRequest, "no"), codes.Unknown, "no"},
		} {
			for _, begun := range []bool{false, true} {
				cc := serve(t, network, with(func(s *Stream) error {
					if begun {
						if err := send(s, []byte("x")); err != nil {
							return err
						}
					}
					return tt.err
				}))
				s := call(t.Context(), t, cc)
				var got []byte
				err := s.RecvMsg(&got)
				if begun && err == nil {
					err = s.RecvMsg(&got)
				}
				if errors.Is(err, io.EOF) {
					err = nil
				}
				if st := status.Convert(err); st.Code() != tt.code || !strings.Contains(st.Message(), tt.text) {
					t.Errorf("%v: %v", tt.err, err)
				}
			}
		}
	})
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	cc := serve(t, "tcp", echo)
	refused := func(s grpc.ClientStream, b []byte) codes.Code {
		t.Helper()
		_ = s.SendMsg(b) // it may have ended before
		var got []byte
		return status.Code(s.RecvMsg(&got))
	}
	other, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Service/Other")
	if err != nil {
		t.Fatal(err)
	}
	if got := refused(other, []byte("x")); got != codes.Unimplemented {
		t.Errorf("another method: %s", got)
	}
	if got := refused(call(t.Context(), t, cc, grpc.UseCompressor("gzip")), []byte("x")); got != codes.Unimplemented {
		t.Errorf("compressed: %s", got)
	}
	if got := refused(call(t.Context(), t, cc), make([]byte, 8<<20+1)); got != codes.ResourceExhausted {
		t.Errorf("too large: %s", got)
	}
}

// A stream that blocks in its goroutine blocks no other of its connection.
func TestAStreamThatOccupiesItsConnectionIsReported(t *testing.T) {
	held := make(chan coroutine.Hold, 1)
	w := coroutine.NewWatchdog(func(h coroutine.Hold) { held <- h })
	var seen coroutine.Hold
	cc := serveWatched(t, "unix", func(*Stream) error {
		seen = <-held // without Leave
		return nil
	}, w)
	if err := call(t.Context(), t, cc).RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if !strings.Contains(seen.Stacks, "TestAStreamThatOccupiesItsConnectionIsReported") {
		t.Errorf("reported %+v", seen)
	}
}

func TestAStreamThatLeftHoldsUpNoOther(t *testing.T) {
	free := make(chan struct{})
	cc := serve(t, "unix", func(s *Stream) error {
		if s.Metadata("echo") != "" {
			return echo(s)
		}
		return s.Leave(func() error {
			<-free
			return send(s, []byte("late"))
		})
	})
	var waiting []grpc.ClientStream
	for range 100 {
		waiting = append(waiting, call(t.Context(), t, cc))
	}
	s := call(metadata.AppendToOutgoingContext(t.Context(), "echo", "1"), t, cc)
	var got []byte
	if err := errors.Join(s.SendMsg([]byte("x")), s.RecvMsg(&got)); err != nil {
		t.Fatal(err)
	}
	close(free)
	for _, s := range waiting {
		if err := s.RecvMsg(&got); err != nil || string(got) != "late" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// SendNow works for a stream that waits for a message.
func TestSendNowIsForAnyGoroutine(t *testing.T) {
	everywhere(t, func(t *testing.T, network string, with engine) {
		t.Helper()
		cc := serve(t, network, with(func(s *Stream) error {
			time.AfterFunc(time.Millisecond, func() {
				_ = s.SendNow(4, func(b []byte) []byte { return append(b, "late"...) }) // its failure is seen by the client
			})
			_, err := s.Receive()
			return err
		}))
		s := call(t.Context(), t, cc)
		var got []byte
		if err := s.RecvMsg(&got); err != nil || string(got) != "late" {
			t.Errorf("%q, %v", got, err)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
	})
}

// When the server stops, streams end in both engines, and Listen returns after them.
func TestStoppingEndsAllStreams(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			var mu sync.Mutex
			running := 0
			add := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				running += n
			}
			t.Cleanup(func() { // runs after the server has stopped
				mu.Lock()
				defer mu.Unlock()
				if running != 0 {
					t.Errorf("%d streams still run", running)
				}
			})
			cc := serve(t, network, func(s *Stream) error {
				add(1)
				rest := func() error {
					defer add(-1)
					return echo(s)
				}
				if s.Metadata("leaves") != "" {
					return s.Leave(rest)
				}
				return rest()
			})
			for _, leaves := range []string{"", "yes"} {
				s := call(metadata.AppendToOutgoingContext(t.Context(), "leaves", leaves), t, cc)
				var got []byte
				if err := errors.Join(s.SendMsg([]byte("x")), s.RecvMsg(&got)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
