package duplex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is a client that writes frames.
type peer struct {
	*http2.Framer
	nc net.Conn
}

// dial serves f on one end of a pipe. The settings of both sides are exchanged.
func dial(t *testing.T, f func(*Stream) error, settings ...http2.Setting) *peer {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		newConn(&Server{Path: method, Serve: f, MaxMessage: 1 << 20, Watchdog: unwatched()}, there).serve()
	}()
	t.Cleanup(func() {
		_ = here.Close()
		<-done
	})
	if err := here.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	p := &peer{http2.NewFramer(here, here), here}
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.frame(t) // the server writes first, before it reads
	p.frame(t)
	if _, err := io.WriteString(here, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	if s, ok := p.frame(t).(*http2.SettingsFrame); !ok || !s.IsAck() {
		t.Fatalf("%v, want the acknowledgement of the settings", s)
	}
	return p
}

func (p *peer) frame(t *testing.T) http2.Frame {
	t.Helper()
	f, err := p.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// block returns the headers of a call.
func block() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes all
	}
	return b.Bytes()
}

func (p *peer) open(t *testing.T, id uint32) {
	t.Helper()
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

func message(s string) []byte { return append([]byte{0, 0, 0, 0, byte(len(s))}, s...) }

// RFC 9113, section 6.5.2: a change of the initial window applies to all streams, and may make their windows negative.
func TestWindowsFollowTheSettings(t *testing.T) {
	p := dial(t, echo, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 8})
	p.open(t, 1)
	if err := p.WriteData(1, false, message("0123456789")); err != nil { // 15 bytes with its prefix
		t.Fatal(err)
	}
	if f, ok := p.frame(t).(*http2.MetaHeadersFrame); !ok {
		t.Fatalf("%v", f)
	}
	want := func(n int) {
		t.Helper()
		if f, ok := p.frame(t).(*http2.DataFrame); !ok || len(f.Data()) != n {
			t.Fatalf("%v, want %d bytes", f, n)
		}
	}
	want(8)
	if err := p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4}); err != nil { // 4 less than nothing
		t.Fatal(err)
	}
	if f, ok := p.frame(t).(*http2.SettingsFrame); !ok {
		t.Fatalf("%v", f)
	}
	if err := p.WriteWindowUpdate(1, 6); err != nil {
		t.Fatal(err)
	}
	want(2)
	if err := p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}); err != nil {
		t.Fatal(err)
	}
	want(5)
}

// The end of a stream is sent after all its data.
func TestTheEndComesLast(t *testing.T) {
	p := dial(t, func(s *Stream) error { return send(s, []byte("0123456789")) }, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 8})
	p.open(t, 1)
	if f, ok := p.frame(t).(*http2.MetaHeadersFrame); !ok || f.StreamEnded() {
		t.Fatalf("%v", f)
	}
	if f, ok := p.frame(t).(*http2.DataFrame); !ok || len(f.Data()) != 8 {
		t.Fatalf("%v", f)
	}
	if err := p.WriteWindowUpdate(1, 100); err != nil {
		t.Fatal(err)
	}
	if f, ok := p.frame(t).(*http2.DataFrame); !ok || len(f.Data()) != 7 {
		t.Fatalf("%v", f)
	}
	if f, ok := p.frame(t).(*http2.MetaHeadersFrame); !ok || !f.StreamEnded() || f.Fields[0].Name != "grpc-status" || f.Fields[0].Value != "0" {
		t.Fatalf("%v", f)
	}
	if f, ok := p.frame(t).(*http2.RSTStreamFrame); !ok || f.ErrCode != http2.ErrCodeNo {
		t.Fatalf("%v: the client's half is open", f)
	}
}

// TestStreamsTakeTurns: events that arrive together are processed together, step by step, and a stream that is reset meanwhile blocks no other.
func TestStreamsTakeTurns(t *testing.T) {
	var steps []string
	p := dial(t, func(s *Stream) error {
		for n := range 3 {
			steps = append(steps, fmt.Sprint(s.id, ".", n))
			s.Turn()
		}
		return nil
	})
	var b bytes.Buffer
	w := http2.NewFramer(&b, nil)
	for _, id := range []uint32{1, 3, 5} {
		_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(), EndHeaders: true, EndStream: true}) // a buffer takes all
	}
	_ = w.WriteRSTStream(3, http2.ErrCodeCancel)
	go func() { _, _ = p.nc.Write(b.Bytes()) }()
	for ended := 0; ended < 2; {
		if h, ok := p.frame(t).(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			ended++
		}
	}
	if got, want := strings.Join(steps, " "), "1.0 3.0 5.0 1.1 3.1 5.1 1.2 3.2 5.2"; got != want {
		t.Errorf("the steps were %s, want %s", got, want)
	}
}

func TestPingsAreAnswered(t *testing.T) {
	p := dial(t, echo)
	if err := p.WritePing(false, [8]byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if f, ok := p.frame(t).(*http2.PingFrame); !ok || !f.IsAck() || f.Data != [8]byte{1, 2, 3} {
		t.Fatalf("%v", f)
	}
}

// Headers may come in parts, messages too, and with padding.
func TestPartsAreJoined(t *testing.T) {
	p := dial(t, echo)
	b := block()
	err := errors.Join(
		p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:3]}),
		p.WriteContinuation(1, true, b[3:]),
		p.WriteDataPadded(1, false, []byte{0, 0}, make([]byte, 9)),
		p.WriteData(1, false, []byte{0, 0, 2, 'a'}),
		p.WriteData(1, false, append([]byte{'b'}, message("c")...)),
	)
	if err != nil {
		t.Fatal(err)
	}
	p.frame(t) // headers
	for _, want := range []string{"ab", "c"} {
		if f, ok := p.frame(t).(*http2.DataFrame); !ok || string(f.Data()[prefixSize:]) != want {
			t.Fatalf("%v, want %q", f, want)
		}
	}
}

// A protocol error ends the connection with a reason.
func TestWhatBreaksTheProtocolEndsTheConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		does func(*peer) error
		code http2.ErrCode
	}{
		"a stream of the server's number": {func(p *peer) error {
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 2, BlockFragment: block(), EndHeaders: true})
		}, http2.ErrCodeProtocol},
		"data before a stream": {func(p *peer) error { return p.WriteData(7, false, []byte("x")) }, http2.ErrCodeProtocol},
		"headers that are none": {func(p *peer) error {
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
		}, http2.ErrCodeCompression},
		"a window that is too large": {func(p *peer) error { return p.WriteWindowUpdate(0, 1<<31-1) }, http2.ErrCodeFlowControl},
		"a frame that is too large": {func(p *peer) error {
			_, err := p.nc.Write(appendFrame(nil, 16385, http2.FrameData, 0, 1))
			return err
		}, http2.ErrCodeFrameSize},
		"headers without an end": {func(p *peer) error {
			err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83}})
			for range 5 {
				err = errors.Join(err, p.WriteContinuation(1, false, bytes.Repeat([]byte{0x83}, 16000)))
			}
			return err
		}, http2.ErrCodeEnhanceYourCalm},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, echo)
			wrote := make(chan error, 1)
			go func() { wrote <- tt.does(p) }()
			for {
				f := p.frame(t)
				if g, ok := f.(*http2.GoAwayFrame); ok {
					if g.ErrCode != tt.code {
						t.Errorf("%s, want %s", g.ErrCode, tt.code)
					}
					break
				}
			}
			_ = p.nc.Close()
			<-wrote
		})
	}
}

// FuzzFrames: for any input, a connection ends when its client does, without a panic.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := http2.NewFramer(&b, nil)
	_ = w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(), EndHeaders: true})
	_ = w.WriteData(1, false, message("hello"))
	_ = w.WriteWindowUpdate(1, 100)
	f.Add(bytes.Clone(b.Bytes()))
	_ = w.WriteDataPadded(1, true, message("hello")[:4], []byte{0})
	_ = w.WriteRSTStream(1, http2.ErrCodeCancel)
	_ = w.WritePing(false, [8]byte{})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, frames []byte) {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			newConn(&Server{Path: method, Serve: echo, MaxMessage: 1 << 16, Watchdog: unwatched()}, there).serve()
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		if _, err := here.Write(append([]byte(http2.ClientPreface), frames...)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		_ = here.Close()
		<-done
	})
}

// TestLongMessagesLieInBuffersOfEarlierOnes, including those of other streams.
func TestLongMessagesLieInBuffersOfEarlierOnes(t *testing.T) {
	const size, frame, messages = 700_000, 16 << 10, 60
	c := newConn(&Server{Path: method, MaxMessage: 1 << 20}, nil)
	c.ended = true // it writes nothing
	sent := binary.BigEndian.AppendUint32([]byte{0}, size)
	sent = append(sent, bytes.Repeat([]byte("x"), size)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for id := range messages {
		s := newStream(c, uint32(id))
		for rest := sent; len(rest) > 0; rest = rest[min(frame, len(rest)):] {
			if err := s.add(rest[:min(frame, len(rest))], min(frame, len(rest)), false); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := s.Receive(); err != nil || !bytes.Equal(b, sent[prefixSize:]) {
			t.Fatalf("message %d: %d bytes, %v", id, len(b), err)
		}
		s.release()
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > messages*size { // the race detector's pool drops a quarter
		t.Errorf("%d messages of %d bytes took %d bytes of new memory", messages, size, took)
	}
}

// TestAnAnnouncedMessageTakesLittleUntilItComes: at most the window's size.
func TestAnAnnouncedMessageTakesLittleUntilItComes(t *testing.T) {
	c := newConn(&Server{Path: method, MaxMessage: 64 << 20}, nil)
	s := newStream(c, 1)
	if err := s.add(append(binary.BigEndian.AppendUint32([]byte{0}, 60<<20), 'x'), prefixSize+1, false); err != nil {
		t.Fatal(err)
	}
	if cap(s.partial) > streamWindow {
		t.Errorf("%d bytes are held for one that came", cap(s.partial))
	}
}
