package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// fakeGateway is a control socket that sends what a test writes.
type fakeGateway struct {
	home   home.Dir
	server *http.Server
	lines  chan string
	done   sync.WaitGroup
}

// startFakeGateway starts one on a state directory. After its end another one can be started there.
func startFakeGateway(t *testing.T, h home.Dir) *fakeGateway {
	t.Helper()
	s := &fakeGateway{home: h, lines: make(chan string)}
	socket := filepath.Join(string(h), "control.sock")
	_ = os.Remove(socket) // of a previous one
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s.server = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/watch" {
			http.NotFound(w, r)
			return
		}
		for {
			select {
			case line := <-s.lines:
				_, _ = io.WriteString(w, line+"\n")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})}
	s.done.Go(func() { _ = s.server.Serve(l) })
	info, err := json.Marshal(home.RunInfo{PID: os.Getpid(), Control: socket})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path("run.json"), info, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

func (s *fakeGateway) end() {
	_ = s.server.Close()
	s.done.Wait()
}

// send waits until a watcher has read the lines.
func (s *fakeGateway) send(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		select {
		case s.lines <- line:
		case <-time.After(polltest.Patience):
			t.Fatalf("nobody watches: %s", line)
		}
	}
}

// shortHome is a state directory whose path is short enough for a socket.
func shortHome(t *testing.T) home.Dir {
	t.Helper()
	return home.Dir(proctest.Dir(t))
}

// frames are the rendered states of a screen, as its program handles messages.
type frames struct {
	mu   sync.Mutex
	last string
}

// keep is a message filter that changes nothing.
func (f *frames) keep(m tea.Model, msg tea.Msg) tea.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = ansi.Strip(m.View().Content)
	return msg
}

func (f *frames) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// shows waits until a text is on the screen. The filter sees a message's effect only with the next one, so it keeps sending.
func (f *frames) shows(t *testing.T, s *fakeGateway, text string) {
	t.Helper()
	for range 1000 {
		if strings.Contains(f.text(), text) {
			return
		}
		s.send(t, `{"type":"of a later version"}`)
	}
	t.Fatalf("never showed %q, but\n%s", text, f.text())
}

// The screen needs a terminal only for its size and key presses.
func TestTheScreenFollowsAGateway(t *testing.T) {
	h := shortHome(t)
	first := startFakeGateway(t, h)
	keys, pressed := io.Pipe()
	var shown frames
	var drawn bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- runScreen(t.Context(), h, tea.WithInput(keys), tea.WithOutput(&drawn), tea.WithWindowSize(200, 30), tea.WithFilter(shown.keep))
	}()
	first.send(t, lines()...)
	for _, text := range []string{"v1.2.3", "req_aaaaaaaaaaaaaaaaaaaaaaaa", "one > two", "5 failures in a row", "q leaves"} {
		shown.shows(t, first, text)
	}
	first.end()
	second := startFakeGateway(t, h)
	second.send(t, lines()[1])
	shown.shows(t, second, "waiting for it to come back")
	second.send(t, strings.Replace(lines()[0], "v1.2.3", "v1.2.4", 1), strings.Replace(lines()[2], "req_aaaa", "req_eeee", 1))
	shown.shows(t, second, "v1.2.4")
	shown.shows(t, second, "req_eeee")
	shown.shows(t, second, "req_dddd")
	if _, err := pressed.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// Only differences to the previous frame are drawn, and the number of frames depends on the machine's speed.
	for _, part := range []string{"bardo ", "one > two", "q leaves"} {
		if text := ansi.Strip(drawn.String()); !strings.Contains(text, part) {
			t.Errorf("%q was not drawn, but %q", part, text)
		}
	}
}

func TestLeavingTheScreenEndsIt(t *testing.T) {
	for _, key := range []string{"q", "\x03", "\x1b"} {
		h := shortHome(t)
		startFakeGateway(t, h)
		ended := make(chan error, 1)
		go func() {
			ended <- runScreen(t.Context(), h, tea.WithInput(strings.NewReader(key)), tea.WithOutput(io.Discard), tea.WithWindowSize(80, 24))
		}()
		if err := <-ended; err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	t.Run("as does a signal", func(t *testing.T) {
		h := shortHome(t)
		ctx, cancel := context.WithCancel(t.Context())
		s := startFakeGateway(t, h)
		ended := make(chan error, 1)
		go func() {
			ended <- runScreen(ctx, h, tea.WithInput(nil), tea.WithOutput(io.Discard), tea.WithWindowSize(80, 24))
		}()
		s.send(t, lines()[0])
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutAGatewayThereIsNothingToWatch(t *testing.T) {
	h := shortHome(t)
	err := runScreen(t.Context(), h, tea.WithInput(nil), tea.WithOutput(io.Discard), tea.WithWindowSize(80, 24))
	if err == nil || !strings.Contains(err.Error(), "no gateway runs on "+string(h)) {
		t.Errorf("the screen: %v", err)
	}
	t.Run("as of a version that cannot be watched", func(t *testing.T) {
		old := startFakeGateway(t, h)
		old.server.Handler = http.NotFoundHandler()
		err := follow(t.Context(), h, func(update) {})
		if err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("got %v", err)
		}
	})
}

func TestABrokenStreamIsReported(t *testing.T) {
	h := shortHome(t)
	s := startFakeGateway(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	disconnected := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- follow(ctx, h, func(s update) {
			if s.disconnected != nil {
				select {
				case disconnected <- *s.disconnected:
				default:
				}
			}
		})
	}()
	s.send(t, lines()[0], "no JSON")
	if why := <-disconnected; !strings.Contains(why, "no JSON object") {
		t.Errorf("got %q", why)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
