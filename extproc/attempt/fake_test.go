package attempt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The time limits of the attempts in these tests.
const (
	firstToken = 10 * time.Second
	idle       = 20 * time.Second
)

var (
	errDisconnected = errors.New("the client has disconnected")
	errBroken       = errors.New("the connection broke")
)

// newAttempt returns a streaming attempt at a provider with the given keys.
func newAttempt(t *testing.T, keys ...string) *attempt.Attempt {
	t.Helper()
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	p := &runtime.Provider{
		Adapter: custom.Adapter{}, Cluster: "cluster",
		Endpoint: provider.Endpoint{Provider: "p", Authority: "provider.test", BasePath: "/v1", Dialect: chat.OpenAI},
	}
	for _, k := range keys {
		p.Keys = append(p.Keys, secret.New(k))
	}
	p.Ring = attempt.NewRing(p.Keys)
	v := &request.View{Config: &runtime.Config{
		Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"p": p}),
		Timeouts:  runtime.Timeouts{FirstToken: firstToken, Idle: idle, Total: time.Minute},
	}}
	v.ID, v.Request = "req_1", req
	return &attempt.Attempt{View: v, To: policy.Resolution{Provider: "p", Model: "m", Upstream: "m"}}
}

// owner counts reported panics.
type owner struct{ panics int }

func (*owner) Written([]string) {}

func (o *owner) Panicked(value any) error {
	o.panics++
	return fmt.Errorf("panic: %v", value)
}

// transport answers a writer's requests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newWriter(f transport) (*attempt.Writer, *owner) {
	o := &owner{}
	return &attempt.Writer{Client: &http.Client{Transport: f}, Owner: o}, o
}

// replies answers with a status and a body.
func replies(status int, body string) transport {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(body))}, nil
	}
}

// streams answers with a body that write writes. As with a connection, it breaks when the request's context ends.
func streams(write func(context.Context, *io.PipeWriter)) transport {
	return func(r *http.Request) (*http.Response, error) {
		body, w := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = w.CloseWithError(r.Context().Err()) })
		go write(r.Context(), w)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body}, nil
	}
}

// silent never answers.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// piece is text that a provider sends after a time of silence.
type piece struct {
	after time.Duration
	text  string
}

// sends writes pieces, and leaves the body open.
func sends(pieces ...piece) func(context.Context, *io.PipeWriter) {
	return func(ctx context.Context, w *io.PipeWriter) {
		for _, p := range pieces {
			select {
			case <-time.After(p.after):
			case <-ctx.Done():
			}
			_, _ = io.WriteString(w, p.text)
		}
	}
}

// sink reads an answer in which the words content, stop, usage and done stand for events.
type sink struct {
	body    bytes.Buffer
	status  int
	failure *upstream.Failure
	passErr error
}

func (s *sink) has(word string) bool                        { return bytes.Contains(s.body.Bytes(), []byte(word)) }
func (s *sink) Feed(_ context.Context, b []byte, _ bool)    { s.body.Write(b) }
func (s *sink) Pass(context.Context) (done bool, err error) { return s.has("done"), s.passErr }
func (s *sink) Failure() *upstream.Failure                  { return s.failure }
func (s *sink) Refusal(status int) *chat.ProviderError {
	return &chat.ProviderError{Status: status, Message: s.body.String()}
}
func (s *sink) HasContent() bool                            { return s.has("content") }
func (s *sink) LacksUsage() bool                            { return s.has("stop") && !s.has("usage") }
func (s *sink) open(status int, _ header.List) attempt.Sink { s.status = status; return s }

// result is the result of an attempt.
type result struct {
	f    *upstream.Failure
	err  error
	took time.Duration
}

// isTimeout reports whether the attempt failed by a time limit.
func (r result) isTimeout(cause error) bool {
	return r.err == nil && r.f != nil && r.f.Kind == upstream.TimedOut && errors.Is(r.f.Cause, cause)
}

// isDisconnect reports whether the client's disconnect ended the attempt, after that time.
func (r result) isDisconnect(took time.Duration) bool {
	return r.f == nil && errors.Is(r.err, errDisconnected) && r.took == took
}

// doing makes an attempt.
type doing func(ctx context.Context, t *testing.T, f transport, s *sink, w attempt.Wait) result

// bothWays runs a test with attempts that wait in goroutines, and with attempts on a thread of many requests.
func bothWays(t *testing.T, test func(t *testing.T, do doing)) {
	t.Helper()
	t.Run("goroutines", func(t *testing.T) { test(t, doWith) })
	t.Run("on a thread", func(t *testing.T) {
		test(t, func(ctx context.Context, t *testing.T, f transport, s *sink, w attempt.Wait) result {
			t.Helper()
			w.Caller = &thread{ctx: ctx, transport: f, came: make(chan struct{}, 1)}
			if at, ok := ctx.Deadline(); ok { // a thread has no timers for contexts
				w.Until = at
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
				defer cancel()
			}
			return doWith(ctx, t, f, s, w)
		})
	})
}

func doWith(ctx context.Context, t *testing.T, f transport, s *sink, wait attempt.Wait) result {
	t.Helper()
	w, _ := newWriter(f)
	began := time.Now()
	failure, err := w.Do(ctx, newAttempt(t), s.open, wait)
	return result{failure, err, time.Since(began)}
}

// thread is a stream.Caller over a transport.
type thread struct {
	ctx       context.Context
	transport transport
	came      chan struct{}
}

// Call implements stream.Caller.
func (d *thread) Call(cluster string, h header.List, body []byte) stream.Call {
	ctx, cancel := context.WithCancel(d.ctx)
	r, err := http.NewRequestWithContext(ctx, h.Get(":method"), "http://"+h.Get(":authority")+h.Get(":path"), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	for _, f := range h {
		if f.Name[0] != ':' {
			r.Header.Set(f.Name, f.Value)
		}
	}
	r.Header.Set(state.HeaderCluster, cluster)
	k := &threadCall{came: d.came, cancel: cancel}
	go k.run(func() (*http.Response, error) { return d.transport(r) })
	return k
}

// Wait implements stream.Caller.
func (d *thread) Wait(until time.Time) error {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case <-d.came:
		return nil
	case <-late.C:
		return nil
	case <-d.ctx.Done():
		return stream.ErrDisconnected
	}
}

// threadCall is a call of a thread.
type threadCall struct {
	came   chan struct{}
	cancel context.CancelFunc

	mu     sync.Mutex
	head   *stream.CallHead
	pieces [][]byte
	end    bool
	err    error
	closed bool
}

func (k *threadCall) change(f func()) {
	k.mu.Lock()
	f()
	k.mu.Unlock()
	select {
	case k.came <- struct{}{}:
	default:
	}
}

func (k *threadCall) run(send func() (*http.Response, error)) {
	resp, err := send()
	if err != nil {
		k.change(func() { k.err = err })
		return
	}
	defer resp.Body.Close()
	h := &stream.CallHead{Status: resp.StatusCode, Header: upstream.HeaderList(resp.Header), Failure: resp.Header.Get(state.HeaderFailure)}
	k.change(func() { k.head = h })
	for err == nil {
		b := make([]byte, 4<<10)
		var n int
		n, err = resp.Body.Read(b)
		k.change(func() {
			if n > 0 {
				k.pieces = append(k.pieces, b[:n])
			}
			k.end = errors.Is(err, io.EOF)
			if err != nil && !k.end {
				k.err = err
			}
		})
	}
}

// Head implements stream.Call.
func (k *threadCall) Head() (*stream.CallHead, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.head != nil {
		return k.head, nil
	}
	return nil, k.err
}

// Next implements stream.Call.
func (k *threadCall) Next() (piece []byte, end, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pieces) > 0 {
		piece, k.pieces = k.pieces[0], k.pieces[1:]
		return piece, k.end && len(k.pieces) == 0, true, nil
	}
	return nil, k.end, k.end, k.err
}

// Close implements stream.Call.
func (k *threadCall) Close() {
	k.closed = true
	k.cancel()
}

// leaver is a client that disconnects when the usage comes.
type leaver struct {
	threadCall
	cancel func()
}

// Call implements stream.Caller.
func (d *leaver) Call(string, header.List, []byte) stream.Call {
	d.head, d.pieces, d.came = &stream.CallHead{Status: http.StatusOK}, [][]byte{[]byte("content stop")}, make(chan struct{}, 1)
	d.threadCall.cancel = func() {}
	return d
}

// Wait implements stream.Caller.
func (d *leaver) Wait(time.Time) error {
	d.change(func() { d.pieces = append(d.pieces, []byte(" usage")) })
	d.cancel()
	return stream.ErrDisconnected
}

// lost is the caller of a client that has disconnected: its calls fail.
type lost struct {
	threadCall
	heads []*stream.CallHead // of its call; none: it fails before
}

// Call implements stream.Caller.
func (d *lost) Call(string, header.List, []byte) stream.Call {
	for _, h := range d.heads {
		d.head = h
	}
	d.err, d.cancel = stream.ErrDisconnected, func() {}
	return d
}

// Wait implements stream.Caller.
func (d *lost) Wait(time.Time) error { return stream.ErrDisconnected }
