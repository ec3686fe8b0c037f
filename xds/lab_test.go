package xds_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/state"
)

// lab is a real Envoy between a scripted sidecar and fake providers.
type lab struct {
	t       *testing.T
	state   state.State
	xds     *xds.Server
	envoy   *envoy.Process
	sidecar *sidecar
	url     string // of the http listener
	log     *proctest.Output
}

const secret = "0123456789abcdef"

// newLab starts everything; providers are in the order in which they are tried.
func newLab(t *testing.T, change func(*state.State), providers ...provider) *lab {
	t.Helper()
	return newLabWith(t, xds.Options{}, change, providers...)
}

func newLabWith(t *testing.T, o xds.Options, change func(*state.State), providers ...provider) *lab {
	t.Helper()
	dir := proctest.Dir(t)
	l := &lab{t: t, log: &proctest.Output{}}
	log := slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.log.String())
		}
	})
	l.state = state.State{
		HTTP:         "127.0.0.1:0",
		EgressSocket: filepath.Join(dir, "egress.sock"),
		EgressSecret: secret,
		ExtProc:      state.Peer{Address: filepath.Join(dir, "extproc.sock")},
		AccessLog:    true,
	}
	for _, p := range providers {
		l.state.Providers = append(l.state.Providers, p.state(t))
		l.state.Order = append(l.state.Order, policy.ProviderID(p.name))
	}
	if change != nil {
		change(&l.state)
	}
	l.sidecar = newSidecar(t, l.state.ExtProc.Address)

	l.xds = xds.NewServer(log, o)
	listener, err := xds.Listen(t.Context(), filepath.Join(dir, "xds.sock"))
	if err != nil {
		t.Fatal(err)
	}
	own(t, func(ctx context.Context) error { return l.xds.Serve(ctx, listener, nil) })
	if err := l.xds.Set(t.Context(), l.state); err != nil {
		t.Fatal(err)
	}
	l.envoy, err = envoy.NewProcess(envoy.Command{
		Path: envoytest.Binary(t), Dir: dir, Concurrency: 1, LogLevel: "info", Log: log,
		Bootstrap: envoy.Options{XDS: state.Peer{Address: filepath.Join(dir, "xds.sock")}, AdminTCP: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	own(t, l.envoy.Run)
	ctx := within(t, polltest.Patience)
	if err := l.envoy.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.xds.Applied(ctx); err != nil {
		t.Fatal(err)
	}
	l.url = "http://" + l.address(ctx, "http")
	return l
}

func (l *lab) address(ctx context.Context, listener string) string {
	l.t.Helper()
	at, err := l.envoy.Addresses(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	return at[listener]
}

// set pushes a changed state and waits until Envoy has it.
func (l *lab) set(change func(*state.State)) {
	l.t.Helper()
	change(&l.state)
	ctx := within(l.t, polltest.Patience)
	if err := l.xds.Set(ctx, l.state); err != nil {
		l.t.Fatal(err)
	}
	if err := l.xds.Applied(ctx); err != nil {
		l.t.Fatal(err)
	}
}

// in returns the lab for a subtest.
func (l *lab) in(t *testing.T) *lab {
	t.Helper()
	sub := *l
	sub.t = t
	return &sub
}

// serverURL returns the URL of a plain HTTP server.
func serverURL(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	return srv.URL
}

// answer is a client's answer.
type answer struct {
	status int
	header http.Header
	body   string
	closes bool  // the connection
	err    error // of reading the body
}

func (l *lab) post(path, body string, headers ...string) answer {
	l.t.Helper()
	return do(l.t, http.DefaultTransport, request(l.t, l.url+path, body, headers...))
}

// egress calls a cluster as the sidecar does.
func (l *lab) egress(path, body string, headers ...string) answer {
	l.t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.state.EgressSocket)
	}}
	l.t.Cleanup(tr.CloseIdleConnections)
	return do(l.t, tr, request(l.t, "http://provider.example"+path, body, headers...))
}

func request(t *testing.T, url, body string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t, polltest.Patience), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

func do(t *testing.T, tr http.RoundTripper, req *http.Request) answer {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b), closes: resp.Close, err: err}
}

// provider is a fake provider that records its requests.
type provider struct {
	name     string
	handler  http.HandlerFunc
	endpoint string // instead of handler: where nothing, or something else, is
	seen     *requests
}

func fake(name string, h http.HandlerFunc) provider {
	return provider{name: name, handler: h, seen: &requests{}}
}

func says(name string) provider {
	return fake(name, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"from":"`+name+`"}`)
	})
}

func (p provider) state(t *testing.T) state.Provider {
	t.Helper()
	if p.endpoint == "" {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			p.seen.add(seen{header: r.Header, path: r.URL.RequestURI(), host: r.Host, body: string(b), length: r.ContentLength})
			p.handler(w, r)
		}))
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		srv.Start()
		t.Cleanup(srv.Close)
		p.endpoint = srv.URL
	}
	e, err := state.ParseEndpoint(p.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return state.Provider{ID: policy.ProviderID(p.name), Endpoints: []state.Endpoint{e}}
}

// seen is one request that a provider got.
type seen struct {
	header     http.Header
	path, host string
	body       string
	length     int64
}

type requests struct {
	mu  sync.Mutex
	all []seen
}

func (r *requests) add(s seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
}

func (r *requests) list() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.all...)
}

// own runs f until the test ends, and waits for it.
func own(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
