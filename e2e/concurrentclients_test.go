package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// concurrentClients are clients that reuse their connections and call the gateway repeatedly, with each of some requests in turn. The text of their
// requests can be changed meanwhile, to mark those that were begun after the change.
type concurrentClients struct {
	g      *gateway.Gateway
	asks   []ask
	says   atomic.Pointer[string]
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
	calls  atomic.Int64

	mu     sync.Mutex
	failed []string
}

// startClients starts clients, which end with the test at the latest.
func startClients(t testing.TB, g *gateway.Gateway, clients int, asks ...ask) *concurrentClients {
	t.Helper()
	c := &concurrentClients{g: g, asks: asks}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	c.say("at first")
	for i := range clients {
		c.ended.Go(func() {
			for n := i; c.ctx.Err() == nil; n++ {
				c.call(c.asks[n%len(c.asks)])
			}
		})
	}
	t.Cleanup(c.end)
	return c
}

// everyKind is one model asked for in both dialects, streamed and not.
func everyKind(model string) []ask {
	var out []ask
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		out = append(out, ask{dialect: d, model: model}, ask{dialect: d, model: model, stream: true})
	}
	return out
}

func (c *concurrentClients) say(s string) { c.says.Store(&s) }

func (c *concurrentClients) call(a ask) {
	a.say = *c.says.Load()
	// A call that was begun is finished, so that every failure is the gateway's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
	defer cancel()
	err := c.try(ctx, a)
	c.calls.Add(1)
	if err != nil {
		c.mu.Lock()
		c.failed = append(c.failed, fmt.Sprintf("%s %s stream=%v: %v", a.dialect, a.model, a.stream, err))
		c.mu.Unlock()
	}
}

func (c *concurrentClients) try(ctx context.Context, a ask) error {
	res, err := c.g.Open(ctx, a.call())
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("after %q: %w", body, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", res.StatusCode, body)
	}
	if a.stream && !strings.Contains(string(body), "[DONE]") && !strings.Contains(string(body), "message_stop") {
		return errors.New("a stream without its end: " + string(body))
	}
	return nil
}

// more waits until the clients have made n more calls.
func (c *concurrentClients) more(t testing.TB, n int64) {
	t.Helper()
	goal := c.calls.Load() + n
	eventually(t, fmt.Sprintf("%d more calls", n), func() bool { return c.calls.Load() >= goal })
}

// end cancels further calls, and waits for those that were begun.
func (c *concurrentClients) end() {
	c.cancel()
	c.ended.Wait()
}

// stop ends the clients, none of whose calls may have failed.
func (c *concurrentClients) stop(t testing.TB) {
	t.Helper()
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) > 0 {
		t.Errorf("%d of %d calls failed, the first: %s", len(c.failed), c.calls.Load(), c.failed[0])
	}
}

// running is a stream that goes on while other things happen.
type running struct {
	a   ask
	res *http.Response
	r   *gateway.Reader
	got strings.Builder
}

// begin opens a stream and reads its first event.
func begin(t testing.TB, g *gateway.Gateway, a ask) *running {
	t.Helper()
	return beginCall(t, g, a, a.call())
}

// beginCall is begin with a call of the request, such as one with a key.
func beginCall(t testing.TB, g *gateway.Gateway, a ask, c gateway.Call) *running {
	t.Helper()
	res, err := g.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %s", res.StatusCode, b)
	}
	s := newRunning(a, res)
	if _, err := s.r.Next(); err != nil {
		t.Fatal(err)
	}
	return s
}

func newRunning(a ask, res *http.Response) *running {
	s := &running{a: a, res: res}
	s.r = gateway.NewReader(io.TeeReader(res.Body, &s.got))
	return s
}

// finish reads the stream to its end and returns what it said.
func (s *running) finish(t testing.TB) string {
	t.Helper()
	for {
		if _, err := s.r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the stream broke off: %v after %s", err, s.got.String())
		}
	}
	return text(t, s.a, gateway.Answer{Status: http.StatusOK, Body: s.got.String()})
}

// words are what a fake says with so many tokens.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "tok%d ", i)
	}
	return b.String()
}
