package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/xds/state"
)

// faulty is a part of the program that panics.
type faulty struct{}

func (faulty) Verify(context.Context, auth.Request) (policy.Principal, bool, error) {
	panic("a value that quotes the prompt")
}

// storingClient is a client that stores its answer.
type storingClient struct {
	stream.Client
	got stream.Reply
}

func (*storingClient) Caller() stream.Caller { return nil }

func (*storingClient) Turn() {}

func (l *storingClient) Reply(r stream.Reply) error {
	l.got = r
	return nil
}

// TestAPanicEndsOneRequest with a 500 in its client's format; it is counted, and the log has the stack and no content.
func TestAPanicEndsOneRequest(t *testing.T) {
	var log strings.Builder
	m := telemetry.New(telemetry.Build{})
	dialects := map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}} //nolint:exhaustive // one client
	g := New(&runtime.Config{Dialects: dialects}, Deps{
		Verifier: faulty{}, Metrics: m, Log: slog.New(slog.NewJSONHandler(&log, nil)), Limiter: quota.New(quota.Options{}),
	})
	hd := stream.NewHead(header.List{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/models"}, {Name: ":authority", Value: "localhost"}}, "127.0.0.1:1")
	for range 2 {
		d := &storingClient{}
		if err := g.Serve(t.Context(), d, hd, true); err != nil {
			t.Fatal(err)
		}
		if d.got.Status != http.StatusInternalServerError || !strings.Contains(string(d.got.Body), `"code":"internal"`) {
			t.Errorf("%d %s", d.got.Status, d.got.Body)
		}
	}
	if g.Live() != 0 {
		t.Errorf("%d exchanges are under way", g.Live())
	}
	if s := log.String(); !strings.Contains(s, "panic_test.go") || strings.Contains(s, "prompt\"") || strings.Contains(s, "quotes the prompt") {
		t.Errorf("the log says %s", s)
	}
}

// broken is an adapter of OpenAI's format that panics when a request is encoded.
type broken struct{ custom.Adapter }

func (broken) Encode([]byte, *chat.Request, policy.Resolution, provider.Endpoint) (*provider.Call, error) {
	panic("a value that quotes the prompt")
}

// unwatched is a Health without state.
type unwatched struct{}

func (unwatched) Report(policy.Result) {}
func (unwatched) Plan(ids []policy.ProviderID) (order []policy.ProviderID, done func()) {
	return ids, func() {}
}
func (unwatched) State(policy.ProviderID) string { return "unknown" }

// panicLab is a gateway with one provider, whose answers come from a transport.
type panicLab struct {
	*Gateway
	log   strings.Builder
	logMu sync.Mutex
}

// Write implements io.Writer for the log.
func (l *panicLab) Write(p []byte) (int, error) {
	l.logMu.Lock()
	defer l.logMu.Unlock()
	return l.log.Write(p)
}

func newPanicLab(a provider.Adapter, egress http.RoundTripper) *panicLab {
	l := &panicLab{}
	l.Gateway = New(&runtime.Config{
		Dialects:  map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}}, //nolint:exhaustive // one client
		Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"p": {Adapter: a, Cluster: "p"}}),
		Pipeline:  pipeline.New(),
		Timeouts:  runtime.Timeouts{FirstToken: time.Hour, Idle: time.Hour, Total: time.Hour, Heartbeat: time.Hour},
		MaxAnswer: 1 << 20,
	}, Deps{
		Metrics: telemetry.New(telemetry.Build{}), Log: slog.New(slog.NewJSONHandler(l, nil)), Limiter: quota.New(quota.Options{}),
		Egress: &http.Client{Transport: egress}, Health: unwatched{},
	})
	return l
}

// exchange returns a streamed request for the provider, with its order.
func (l *panicLab) exchange(t *testing.T) (*exchange, *storingClient) {
	t.Helper()
	hd := stream.NewHead(header.List{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}}, "127.0.0.1:1")
	d := &storingClient{}
	x := l.newExchange(d, hd)
	var err error
	x.Request, err = openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	x.Order = []policy.Resolution{{Provider: "p", Model: "m"}, {Provider: "p", Model: "m"}}
	x.Found, x.native.Plan = x.Order, x.Order
	return x, d
}

// ended checks that one exchange ended in an internal error and was counted, and that the log does not quote it.
func (l *panicLab) ended(t *testing.T, d *storingClient, times int) {
	t.Helper()
	if d.got.Status != http.StatusInternalServerError || !strings.Contains(string(d.got.Body), `"code":"internal"`) {
		t.Errorf("the client gets %d %s", d.got.Status, d.got.Body)
	}
	w := httptest.NewRecorder()
	l.Metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if want := fmt.Sprintf("bardo_panics_total %d\n", times); !strings.Contains(w.Body.String(), want) {
		t.Errorf("the metrics lack %s", want)
	}
	l.logMu.Lock()
	defer l.logMu.Unlock()
	if s := l.log.String(); !strings.Contains(s, "panic_test.go") || strings.Contains(s, "quotes the prompt") {
		t.Errorf("the log says %s", s)
	}
}

// TestAPanicOfAnAttemptEndsItsExchangeAlone: Envoy has an attempt encoded on a stream of its own. The client gets a 500. If the exchange is unknown,
// the panic is reported to the stream's server.
func TestAPanicOfAnAttemptEndsItsExchangeAlone(t *testing.T) {
	l := newPanicLab(broken{}, nil)
	x, d := l.exchange(t)
	l.exchanges.Add(x.ID, x)
	lost, _ := l.exchange(t)
	lost.native.Plan = nil // planning its attempt is out of range
	l.exchanges.Add(lost.ID, lost)
	for _, id := range []string{x.ID, "req_nobodys"} {
		if r, err := l.Attempt(&stream.Attempt{Exchange: id, Cluster: state.RetryCluster("p"), Number: 2}); err == nil {
			t.Errorf("%s: written is %+v", id, r)
		}
	}
	func() {
		defer func() { l.Panicked(recover()) }()
		_, _ = l.Attempt(&stream.Attempt{Exchange: lost.ID, Cluster: state.RetryCluster("p"), Number: 2})
		t.Error("an attempt without a plan is written")
	}()
	n := &nativeAnswer{x: x}
	if done, err := n.begin(t.Context(), &stream.AnswerHead{Status: http.StatusServiceUnavailable, Details: "ext_proc_error_grpc_error_9"}); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	l.ended(t, d, 2)
}

// transport answers for the provider.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// rotten is a body whose reader panics.
type rotten struct{}

func (rotten) Read([]byte) (int, error) { panic("a value that quotes the prompt") }
func (rotten) Close() error             { return nil }

// TestAPanicBesideAnExchangeEndsItAlone: calls are made, and their answers read, in goroutines of their own. The client gets a 500, and no other
// candidate is called.
func TestAPanicBesideAnExchangeEndsItAlone(t *testing.T) {
	calls := 0
	for name, answer := range map[string]transport{
		"the call": func(*http.Request) (*http.Response, error) {
			calls++
			panic("a value that quotes the prompt")
		},
		"the answer": func(r *http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: rotten{}, Request: r}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			l := newPanicLab(custom.Adapter{}, answer)
			x, d := l.exchange(t)
			err := x.serveDriven(t.Context())
			if f, ok := errors.AsType[*fault.Fault](err); !ok || !attempt.IsPanic(err) || calls != 1 {
				t.Fatalf("%v after %d calls", err, calls)
			} else if err := d.Reply(x.report.Error(f)); err != nil { // as serve does
				t.Fatal(err)
			}
			l.ended(t, d, 1)
			x.streamStarted = true
			if err := x.broken(err); !errors.Is(err, stream.ErrTruncated) {
				t.Errorf("a stream that has begun ends with %v", err)
			}
		})
	}
}

// leaver is a client that disconnects while its request is read.
type leaver struct{ storingClient }

func (*leaver) RequestBody(stream.RequestBody) error { return stream.ErrDisconnected }

// TestK34WhoDisconnectsGetsNoAnswer: it is not a failure of the gateway, although the request's context has not ended yet.
func TestK34WhoDisconnectsGetsNoAnswer(t *testing.T) {
	dialects := map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}} //nolint:exhaustive // one client
	g := New(&runtime.Config{Dialects: dialects, Keyless: runtime.KeylessAnyone, MaxBody: 1 << 20}, Deps{
		Verifier: auth.Chain(nil), Metrics: telemetry.New(telemetry.Build{}), Log: slog.New(slog.DiscardHandler), Limiter: quota.New(quota.Options{}),
	})
	hd := stream.NewHead(header.List{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}, {Name: ":authority", Value: "localhost"},
	}, "127.0.0.1:1")
	d := &leaver{}
	if err := g.Serve(t.Context(), d, hd, false); !errors.Is(err, stream.ErrDisconnected) || d.got.Status != 0 {
		t.Errorf("%v, and it was answered %d %s", err, d.got.Status, d.got.Body)
	}
}
