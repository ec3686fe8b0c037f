package module_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// library builds the library of the stub once.
var library = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bardo"); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-buildmode=c-shared", "-o", filepath.Join(dir, "libbardo.so"), "./testdata/stub").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := library(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// gateway is an Envoy with the stub.
type gateway struct {
	t     *testing.T
	url   string
	dir   string
	cmd   *exec.Cmd
	log   *proctest.Output
	admin envoy.Admin
	ended chan error
	held  int // requests that keep the workers busy, not counted in its state
}

type cluster struct {
	Name string
	Port int
}

// engines runs a test with each engine.
func engines(t *testing.T, test func(t *testing.T, g *gateway)) {
	t.Helper()
	for _, engine := range []string{"goroutines", "coroutines"} {
		t.Run(engine, func(t *testing.T) { test(t, start(t, engine).ready()) })
	}
	t.Run("coroutines of busy workers", func(t *testing.T) { test(t, start(t, "coroutines").ready().busy()) })
}

// busy holds requests open, so many that each worker has several and runs the others in batches.
func (g *gateway) busy() *gateway {
	g.t.Helper()
	const many = 48
	for range many {
		go g.do(g.t.Context(), "/wait", []byte("hello"))
	}
	polltest.Until(g.t, "the requests that stay open", func() bool { return g.state().Open == many+1 })
	g.held = many
	return g
}

// start runs an Envoy whose clusters a, b and their retry clusters lead to provider, and "dead" to nothing.
func start(t *testing.T, engine string) *gateway {
	t.Helper()
	dir := proctest.Dir(t)
	g := &gateway{t: t, dir: dir, log: &proctest.Output{}, admin: envoy.NewAdmin(filepath.Join(dir, "admin.sock")), ended: make(chan error, 1)}
	g.configure(dir + " " + engine)
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	g.cmd = exec.Command(envoytest.Binary(t), "-c", filepath.Join(dir, "envoy.json"), "--concurrency", "2", "--disable-hot-restart", "-l", "warning", "--drain-time-s", "1") //nolint:noctx // stopped by a signal
	g.cmd.Env = append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+lib)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.ended <- g.cmd.Wait() }()
	t.Cleanup(g.stop)
	return g
}

// stop ends the Envoy, and shows what it logged if the test failed.
func (g *gateway) stop() {
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(polltest.Patience):
		_ = g.cmd.Process.Kill()
	}
	if g.t.Failed() {
		g.t.Log(g.log.String())
	}
}

func (g *gateway) configure(config string) {
	g.t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(provide))
	g.t.Cleanup(provider.Close)
	port := provider.Listener.Addr().(*net.TCPAddr).Port
	text, err := os.ReadFile("testdata/envoy.json")
	if err != nil {
		g.t.Fatal(err)
	}
	var out bytes.Buffer
	err = template.Must(template.New("").Parse(string(text))).Execute(&out, map[string]any{
		"Dir": g.dir, "Config": config, "Clusters": []cluster{{"a", port}, {"b", port}, {"a~retry", port}, {"b~retry", port}, {"dead", 1}, {"dead~retry", 1}},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "envoy.json"), out.Bytes(), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// ready waits until the Envoy serves.
func (g *gateway) ready() *gateway {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), polltest.Patience)
	defer cancel()
	if err := g.admin.Ready(ctx); err != nil {
		g.t.Fatal(err)
	}
	at, err := g.admin.Addresses(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	g.url = "http://" + at["client"]
	return g
}

// provide is the provider: the path controls it, and "/provider" echoes.
func provide(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Provider", "yes")
	first := r.Header.Get("X-Attempt") == "1" || r.Header.Get("X-Attempt") == "own"
	switch {
	case strings.HasSuffix(r.URL.Path, "/503") && first:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasSuffix(r.URL.Path, "/error") && first:
		_, _ = io.WriteString(w, "\n\n{ \"error\": {\"code\": \"rate_limit_exceeded\"}}")
		return
	case strings.HasSuffix(r.URL.Path, "/reset") && first:
		panic(http.ErrAbortHandler)
	case strings.HasSuffix(r.URL.Path, "/cut"):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: begun\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case strings.HasSuffix(r.URL.Path, "/claims"):
		w.Header().Set("X-Bardo-Internal-Failure", "cluster_not_found")
	case strings.HasSuffix(r.URL.Path, "/silent"):
		<-r.Context().Done()
		return
	case strings.HasSuffix(r.URL.Path, "/headers"):
		fmt.Fprint(w, r.Header["X-Pair"], r.Header["X-Once"], r.Header["X-Kept"], r.Header["X-Secret"])
		return
	case strings.HasSuffix(r.URL.Path, "/endless"):
		endless(w, r)
		return
	}
	fmt.Fprintf(w, "%s %s %s auth=%q secret=%q cluster=%q length=%d|", r.Method, r.URL.Path, r.Header.Get("X-Attempt"), r.Header.Get("Authorization"),
		r.Header.Get("X-Secret"), r.Header.Get("X-Cluster"), r.ContentLength)
	_, _ = w.Write(body)
}

func endless(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(time.Millisecond) // not faster than a client reads: unread data is limited
	defer tick.Stop()
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 16<<10)); err != nil {
			return
		}
		<-tick.C
	}
}

var client = &http.Client{Timeout: polltest.Patience}

// answer is a client's answer.
type answer struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	err     error
}

func (g *gateway) do(ctx context.Context, path string, body []byte, headers ...string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(got), resp.Trailer, err}
}

// state is the stub's own report.
type state struct{ Open, Panics, Disconnected, Goroutines, Holds int }

func (g *gateway) state() (s state) {
	g.t.Helper()
	a := g.do(g.t.Context(), "/state", nil)
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		g.t.Fatalf("%v, %v: %s", a.err, err, g.log)
	}
	s.Open -= g.held
	s.Goroutines -= g.held
	return s
}

// quiet waits until no request is left but its own.
func (g *gateway) quiet() {
	g.t.Helper()
	polltest.Until(g.t, "the end of all requests", func() bool { return g.state().Open == 1 })
}

func TestRequestsAreServed(t *testing.T) { engines(t, testRequestsAreServed) }

func testRequestsAreServed(t *testing.T, g *gateway) {
	t.Helper()
	large := bytes.Repeat([]byte("0123456789abcdef"), 8<<16) // 8 MiB
	for _, row := range rows(large) {
		t.Run(row.name, func(t *testing.T) {
			a := g.do(t.Context(), row.path, row.body, "authorization", "Bearer own", "x-secret", "s")
			if (a.err != nil) != row.broken {
				t.Fatalf("the answer ends with %v, %d", a.err, a.status)
			}
			if a.status != row.status || a.body != row.want {
				t.Errorf("%d %.300q, want %d %.300q", a.status, a.body, row.status, row.want)
			}
			for name, want := range row.headers {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
	g.quiet()
	if s := g.state(); s.Goroutines > 90 || s.Panics != 3 {
		t.Errorf("at the end %+v", s)
	}
}

type row struct {
	name, path string
	body       []byte
	status     int
	want       string
	broken     bool // the answer ends early
	headers    map[string]string
}

// provided returns what the provider answers for an attempt.
func provided(path, attempt, auth, cluster, body string) string {
	return fmt.Sprintf("POST /provider%s %s auth=%q secret=%q cluster=%q length=%d|%s", path, attempt, auth, "", cluster, len(body), body)
}

func rows(large []byte) []row {
	echoed := string(large)
	return []row{
		{name: "an answer of the module", path: "/echo", body: []byte("hello"), status: 201, want: "hello", headers: map[string]string{"content-type": "text/x-echo", "x-peer": "127.0.0.1", "content-length": "5"}},
		{name: "an empty body", path: "/echo", status: 201},
		{name: "8 MiB", path: "/echo", body: large, status: 201, want: echoed},
		{name: "an answer before the body", path: "/deny", body: large[:1<<20], status: 401, want: "who?"},
		{name: "a body that is too large", path: "/echo?most=100", body: large, status: 413, want: "too large"},
		{name: "a stream", path: "/stream?n=50&size=1000", status: 200, want: strings.Repeat("s", 50_000)},
		{name: "a large stream", path: "/stream?n=400&size=20000", status: 200, want: strings.Repeat("s", 8_000_000)},
		{name: "a panic", path: "/panic", status: 500, want: `{"error":{"message":"the gateway failed to handle this request","type":"api_error","code":"internal","param":null}}`},
		{name: "a panic in a stream", path: "/goroutine", status: 200, want: "part", broken: true},
		{name: "an error", path: "/error", status: 503},
		{name: "no answer", path: "/nothing", status: 503},
		{name: "a truncated answer", path: "/truncate", status: 200, want: "part", broken: true},
		{name: "a request without an end", path: "/nowhere", status: 500, want: `{"error":{"message":"the gateway failed to handle this request","type":"api_error","code":"internal","param":null}}`},

		{name: "a forwarded request", path: "/forward?to=a", body: []byte("hello"), status: 203, want: "A:" + provided("", "1", "Bearer own", "", "1:hello"), headers: map[string]string{
			"x-cluster": "a", "x-details": "via_upstream", "x-attempts": "1", "x-status": "200", "x-provider": "",
		}},
		{name: "8 MiB forwarded", path: "/forward?to=a", body: large, status: 203, want: "A:" + provided("", "1", "Bearer own", "", "1:"+echoed)},
		{name: "a retry with another body", path: "/forward?to=a,b~retry&path=/503", body: []byte("hello"), status: 203, want: "A:" + provided("/503", "2", "", "b~retry", "2: hello"), headers: map[string]string{
			"x-cluster": "b~retry", "x-attempts": "2", "x-outcomes": "a;503;7|",
		}},
		{name: "8 MiB retried", path: "/forward?to=a,b~retry&path=/503", body: large, status: 203, want: "A:" + provided("/503", "2", "", "b~retry", "2: "+echoed)},
		{name: "an error in an answer with 200", path: "/forward?to=a,b~retry&path=/error", body: []byte("hello"), status: 203, want: "A:" + provided("/error", "2", "", "b~retry", "2: hello"), headers: map[string]string{"x-outcomes": "a;429;|"}},
		{name: "a reset attempt", path: "/forward?to=a,b~retry&path=/reset", body: []byte("hello"), status: 203, want: "A:" + provided("/reset", "2", "", "b~retry", "2: hello"), headers: map[string]string{"x-outcomes": "|"}},
		{name: "no connection", path: "/forward?to=dead,b~retry", body: []byte("hello"), status: 203, want: "A:" + provided("", "2", "", "b~retry", "2: hello")},
		{name: "every attempt refused", path: "/forward?to=dead&replace=1", status: 502, want: "replaced", headers: map[string]string{"x-was": "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"}},
		{name: "a retry that cannot be written", path: "/forward?to=a,b~retry&path=/503&replace=1", body: []byte("unwritable"), status: 502, want: "replaced", headers: map[string]string{"x-was": "module_error", "x-outcomes": "a;503;7|"}},
		{name: "an answer that is replaced", path: "/forward?to=a&replace=1", status: 502, want: "replaced", headers: map[string]string{"x-was": "via_upstream", "x-provider": ""}},

		{name: "a call", path: "/call?to=a", body: []byte("hello"), status: 200, want: provided("", "own", "", "", "hello"), headers: map[string]string{"x-failure": "", "x-provider": "yes"}},
		{name: "a call with 8 MiB", path: "/call?to=a", body: large, status: 200, want: provided("", "own", "", "", echoed)},
		{name: "a call that is refused", path: "/call?to=a&path=/503", body: []byte("hello"), status: 503, want: provided("/503", "own", "", "", "hello"), headers: map[string]string{"x-failure": ""}},
		{name: "a call of a cluster without a provider", path: "/call?to=dead", status: 503, headers: map[string]string{"x-failure": "upstream_reset_before_response_started{remote_connection_failure}"}},
		{name: "a call of an unknown cluster", path: "/call?to=unknown", status: 503, headers: map[string]string{"x-failure": "cluster_not_found"}},
		{name: "a call whose provider takes Envoy's word", path: "/call?to=a&path=/claims", body: []byte("hello"), status: 200, want: provided("/claims", "own", "", "", "hello"), headers: map[string]string{"x-failure": ""}},
		{name: "a call that breaks off", path: "/call?to=a&path=/cut", status: 200, want: "data: begun\n\n", broken: true},
		{name: "a call that is cancelled", path: "/call?to=a&path=/silent&cancel=1", status: 502, want: `Post "http://egress/provider/silent": context deadline exceeded`},

		{name: "a local call", path: "/local?to=a", body: []byte("hello"), status: 200, want: provided("", "own", "", "", "hello"), headers: map[string]string{"x-failure": "", "x-provider": "yes"}},
		{name: "a local call with 8 MiB", path: "/local?to=a", body: large, status: 200, want: provided("", "own", "", "", echoed)},
		{name: "a local call that is refused", path: "/local?to=a&path=/503", body: []byte("hello"), status: 503, want: provided("/503", "own", "", "", "hello"), headers: map[string]string{"x-failure": ""}},
		{name: "a local call of a cluster without a provider", path: "/local?to=dead", status: 503, headers: map[string]string{"x-failure": "upstream_reset_before_response_started{remote_connection_failure}"}},
		{name: "a local call of an unknown cluster", path: "/local?to=unknown", status: 503, headers: map[string]string{"x-failure": "cluster_not_found"}},
		{name: "a local call whose provider takes Envoy's word", path: "/local?to=a&path=/claims", body: []byte("hello"), status: 200, want: provided("/claims", "own", "", "", "hello"), headers: map[string]string{"x-failure": ""}},
		{name: "a local call that breaks off", path: "/local?to=a&path=/cut", status: 200, want: "data: begun\n\n", broken: true},
	}
}

func TestManyHeadersAreRead(t *testing.T) { engines(t, testManyHeadersAreRead) }

func testManyHeadersAreRead(t *testing.T, g *gateway) {
	t.Helper()
	for _, n := range []int{1, 90} { // Envoy's own limit is 100
		var h []string
		for i := range n {
			h = append(h, fmt.Sprint("x-many-", i), "v")
		}
		a := g.do(t.Context(), "/echo", nil, h...)
		if got, _ := strconv.Atoi(a.header.Get("x-headers")); a.status != 201 || got < n {
			t.Errorf("%d: %d headers of %d arrived", a.status, got, n)
		}
	}
}

func TestChangesOfHeadersAreThoseThatDiffer(t *testing.T) {
	engines(t, testChangesOfHeadersAreThoseThatDiffer)
}

func testChangesOfHeadersAreThoseThatDiffer(t *testing.T, g *gateway) {
	t.Helper()
	for _, sent := range [][]string{
		{"x-pair", "second", "x-once", "1"},
		{"x-pair", "first", "x-once", "1", "x-once", "1"},
		{"x-once", "2", "x-secret", "s", "x-secret", "s"},
	} {
		a := g.do(t.Context(), "/forward?to=a&path=/headers", nil, append(sent, "x-kept", "k", "x-kept", "k")...)
		if want := "A:[second] [1] [k k] []"; a.body != want {
			t.Errorf("with %q the provider got %s, want %s", sent, a.body, want)
		}
	}
}

func TestTrailersEndAStream(t *testing.T) { engines(t, testTrailersEndAStream) }

func testTrailersEndAStream(t *testing.T, g *gateway) {
	t.Helper()
	a := g.do(t.Context(), "/stream?n=2&size=10&trailers=1", nil, "te", "trailers")
	if a.err != nil || len(a.body) != 20 || a.trailer.Get("x-end") != "reached" {
		t.Errorf("%+v", a)
	}
}

// TestK34ClientsDisconnect at each point: while their request is read, before and within an answer of the module, and while a provider is called.
func TestK34ClientsDisconnect(t *testing.T) { engines(t, testK34ClientsDisconnect) }

func testK34ClientsDisconnect(t *testing.T, g *gateway) {
	t.Helper()
	for i, path := range []string{"/wait", "/wait?begin=1", "/forward?to=a&path=/silent", "/call?to=a&path=/silent", "/call?to=a&path=/endless", "/local?to=a&path=/silent", "/local?to=a&path=/endless"} {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			if a := g.do(ctx, path, []byte("hello")); a.err == nil {
				t.Errorf("%s: %d", path, a.status)
			}
		}()
		polltest.Until(t, path+" has arrived", func() bool { return g.state().Open == 2 })
		time.AfterFunc(200*time.Millisecond, cancel) // usually during its call; earlier must end it as well
		<-over
		polltest.Until(t, path, func() bool { s := g.state(); return s.Disconnected == i+1 && s.Open == 1 })
	}
}

// TestClientsThatLeaveAtOnce: clients disconnect at arbitrary times; all others are answered.
func TestClientsThatLeaveAtOnce(t *testing.T) { engines(t, testClientsThatLeaveAtOnce) }

func testClientsThatLeaveAtOnce(t *testing.T, g *gateway) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			for n := range 15 {
				body := []byte(fmt.Sprint(i, "-", n))
				if i%2 == 0 {
					if a := g.do(t.Context(), "/forward?to=a", body); a.err != nil || !strings.Contains(a.body, "1:"+string(body)) {
						t.Errorf("%s: %d, %v: %s", body, a.status, a.err, a.body)
					}
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*200*time.Microsecond)
				g.do(ctx, "/forward?to=a", body)
				cancel()
			}
		})
	}
	all.Wait()
	g.quiet()
}

func TestManyStreamsAtOnce(t *testing.T) { engines(t, testManyStreamsAtOnce) }

func testManyStreamsAtOnce(t *testing.T, g *gateway) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			path, want := "/stream?n=20&size=5000", strings.Repeat("s", 100_000)
			if i%2 == 1 {
				path, want = []string{"/call?to=a", "/local?to=a"}[i/2%2], provided("", "own", "", "", "hello")
			}
			if a := g.do(t.Context(), path, []byte("hello")); a.err != nil || a.body != want {
				t.Errorf("%s: %d, %v, %d bytes", path, a.status, a.err, len(a.body))
			}
		})
	}
	all.Wait()
	g.quiet()
	const idle = 3 * 64 // coroutines of two workers, and goroutines
	if s := g.state(); s.Goroutines > idle+2*g.held+50 {
		t.Errorf("%d goroutines are left", s.Goroutines)
	}
}

// TestAHeldWorkerIsReported with the stack of what blocked it.
func TestAHeldWorkerIsReported(t *testing.T) {
	g := start(t, "coroutines").ready()
	polltest.Until(t, "a hold", func() bool {
		return g.do(t.Context(), "/slow", nil).status == 200 && g.state().Holds > 0
	})
	polltest.Until(t, "a report", func() bool {
		log := g.log.String()
		return strings.Contains(log, "is held:") && strings.Contains(log, "main.slow+")
	})
}

func TestTheProcessEnds(t *testing.T) {
	g := start(t, "goroutines").ready()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "shutdown", func() bool { _, err := os.Stat(filepath.Join(g.dir, "shutdown")); return err == nil })
}

func TestAnAppThatFailsStopsEnvoy(t *testing.T) {
	g := start(t, "fail")
	if err := <-g.ended; err == nil {
		t.Error("Envoy runs without the gateway")
	}
	g.ended <- nil
	if !strings.Contains(g.log.String(), "the gateway does not start: told to fail") {
		t.Error(g.log)
	}
}
