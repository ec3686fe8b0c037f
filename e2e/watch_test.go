package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// watching is a `bardo watch` that runs.
type watching struct {
	mu    sync.Mutex
	lines []string
}

// watch starts `bardo watch` and reads its lines until the test ends.
func watch(t *testing.T, g *gateway.Gateway, args ...string) *watching {
	t.Helper()
	cmd := g.Command(t, append([]string{"watch"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watching{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.mu.Lock()
			w.lines = append(w.lines, s.Text())
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("watch ended with %v", err)
		}
	})
	return w
}

// sees waits for a line with all of the given parts.
func (w *watching) sees(t *testing.T, parts ...string) (line string) {
	t.Helper()
	eventually(t, "a line with "+strings.Join(parts, ", "), func() bool {
		for _, line = range w.all() {
			if containsAll(line, parts) {
				return true
			}
		}
		return false
	})
	return line
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

func (w *watching) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lines...)
}

const said = "the-user-said-this"

// TestWatchShowsEveryRequestAndNothingOfWhatWasSaid: one that is served, one that fails over, one that is refused and one
// that nobody could serve; in words and as JSON.
func TestWatchShowsEveryRequestAndNothingOfWhatWasSaid(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: models("m", "")}, {ID: "second", Fake: second, Format: "anthropic", Models: models("m", "")},
	}})
	plain, lines := watch(t, g, "--plain"), watch(t, g, "--json")
	lines.sees(t, `"type":"gateway"`, `"pid":`)
	lines.sees(t, `"type":"status"`, `"provider":"second"`)
	before := awaitWatched(t, g, plain)

	send := func(c gateway.Call) gateway.Answer { return g.Do(t, c) }
	id := func(a gateway.Answer) string { return a.Header.Get("X-Request-Id") }
	served := id(send(ask{dialect: fake.Anthropic, model: "m", stream: true, say: said}.call()))
	first.Queue(fake.Behaviour{Status: 503})
	moved := id(send(ask{dialect: fake.OpenAI, model: "m", say: said}.call()))
	unknown := id(send(ask{dialect: fake.OpenAI, model: "no-such-model", say: said}.call()))
	c := ask{dialect: fake.OpenAI, model: "m", say: said}.call()
	c.Key = "bardo_sk_wrong"
	refused := id(send(c))
	for _, p := range []*fake.Server{first, second} {
		p.Behave(fake.Behaviour{Status: 500})
	}
	failed := id(send(ask{dialect: fake.OpenAI, model: "m", say: said}.call()))

	plain.sees(t, "200", served, "dialect=anthropic", "stream=true", "provider=first", "tried=first ", "outcome=ok")
	plain.sees(t, "200", moved, "provider=second", "tried=first,second", "attempts=2", "cost_usd=0.0000")
	plain.sees(t, "404", unknown, "asked=no-such-model", "error=model_not_found")
	plain.sees(t, "401", refused, "error=invalid_api_key")
	plain.sees(t, "502", failed, "tried=first,second", "error=upstream_error")

	for _, p := range []*fake.Server{first, second} {
		p.Behave(fake.Behaviour{})
	}
	again := ask{dialect: fake.OpenAI, model: "m", more: `"temperature":0`, say: said}
	send(again.call())
	plain.sees(t, id(send(again.call())), "cache=hash", "cost_usd=0.000000")

	var r struct {
		Type   string
		Cost   float64                              `json:"cost_usd"`
		Output int                                  `json:"output_tokens"`
		Log    []struct{ Provider, Outcome string } `json:"attempt_log"`
	}
	if err := json.Unmarshal([]byte(lines.sees(t, moved)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Type != "request" || r.Cost <= 0 || r.Output == 0 || len(r.Log) != 2 || r.Log[0].Provider != "first" || r.Log[1].Outcome != "ok" {
		t.Errorf("got %+v", r)
	}
	const withBody = 6 // a wrong key is refused before the body is read, and counts as a request
	lines.sees(t, `"type":"status"`, fmt.Sprintf(`"served":%d,"requests_today":%d,`, withBody, withBody+1+before))

	checkNotShown(t, append(plain.all(), lines.all()...), said, g.Key, "bardo_sk_", first.Key, second.Key)
}

// checkNotShown wants none of the secrets in any line.
func checkNotShown(t *testing.T, lines []string, secrets ...string) {
	t.Helper()
	for _, line := range lines {
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("%q is shown in %s", secret, line)
			}
		}
	}
}

// awaitWatched sends requests with a wrong key until a watcher sees one: what ended before it came is not shown. It returns how many.
func awaitWatched(t *testing.T, g *gateway.Gateway, w *watching) (refused int) {
	t.Helper()
	eventually(t, "the watcher's first line", func() bool {
		c := ask{dialect: fake.OpenAI, model: "m"}.call()
		c.Key = "bardo_sk_nobody"
		g.Do(t, c)
		refused++
		return len(w.all()) > 0
	})
	return refused
}

func TestWatchComesBackWithTheGateway(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "only", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	w := watch(t, g, "--json")
	w.sees(t, `"type":"status"`)
	if err := g.Stop(); err != nil { // a watcher holds up no drain
		t.Fatal(err)
	}
	o.Home, o.NoKey = g.Home, true
	again := gateway.Run(t, o)
	again.Key = g.Key
	eventually(t, "the second gateway's first line", func() bool {
		n := 0
		for _, line := range w.all() {
			if strings.Contains(line, `"type":"gateway"`) {
				n++
			}
		}
		return n == 2
	})
	got := again.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
	w.sees(t, `"type":"request"`, got.Header.Get("X-Request-Id"))
}

func TestWatchNeedsAGateway(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{})
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if r := g.Try(t, "watch", "--plain"); r.Code != 1 || !strings.Contains(r.Stderr, "no gateway runs on "+g.Home) {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
}

func TestWatchWorksBesideASidecar(t *testing.T) {
	t.Parallel()
	g, _ := splitGateway(t)
	mustServe(t, g)
	w := watch(t, g.Gateway, "--plain")
	awaitWatched(t, g.Gateway, w)
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
	w.sees(t, "200", got.Header.Get("X-Request-Id"))
}

// TestWatchOnATerminal: the screen, its colours, a change of its size, and its end by a key.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "only", Fake: p, Models: models("m", "")}}})
	cmd := g.Command(t, "watch")
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	var drawn proctest.Output
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&drawn, tty) // ends with the program
	}()
	eventually(t, "the first screen", func() bool { return strings.Contains(drawn.String(), "no request has ended") })
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: said}.call())
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	eventually(t, "the request's line", func() bool { return strings.Contains(drawn.String(), got.Header.Get("X-Request-Id")) })
	before := len(drawn.String())
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 20, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the smaller screen", func() bool { return strings.Contains(drawn.String()[before:], "PROVIDER") })
	if small := drawn.String()[before:]; strings.Contains(small, got.Header.Get("X-Request-Id")) {
		t.Errorf("60 columns have room for the request's id:\n%q", small)
	}
	if _, err := tty.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	<-read
	if err := cmd.Wait(); err != nil {
		t.Errorf("watch ended with %v", err)
	}
	s := drawn.String()
	for what, sequence := range map[string]string{"green": "\x1b[32m", "the terminal's own screen, given back": "\x1b[?1049l"} {
		if !strings.Contains(s, sequence) {
			t.Errorf("%s is missing in %q", what, s)
		}
	}
	if strings.Contains(s, said) || strings.Contains(s, g.Key) {
		t.Errorf("a prompt or a key is on the screen: %q", s)
	}
}
