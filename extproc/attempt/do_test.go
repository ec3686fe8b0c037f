package attempt_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

func TestAnAttemptGoesThroughTheEgressListener(t *testing.T) {
	var got *http.Request
	w, _ := newWriter(func(r *http.Request) (*http.Response, error) {
		got = r
		return replies(http.StatusOK, "content done")(r)
	})
	at, s := newAttempt(t), &sink{}
	at.View.Config.EgressSecret = "secret"
	if f, err := w.Do(t.Context(), at, s.open, attempt.Wait{}); f != nil || err != nil {
		t.Fatal(f, err)
	}
	if s.body.String() != "content done" || s.status != http.StatusOK {
		t.Errorf("the sink has %d %q", s.status, s.body.String())
	}
	body, _ := io.ReadAll(got.Body)
	if got.URL.String() != "http://egress/v1/chat/completions" || got.Host != "provider.test" || !strings.Contains(string(body), `"hi"`) {
		t.Errorf("%s, host %s: %s", got.URL, got.Host, body)
	}
	if c, x := got.Header.Get(state.HeaderCluster), got.Header.Get(state.HeaderExchange); c != "cluster" || x != "secret.req_1" {
		t.Errorf("cluster %q, exchange %q", c, x)
	}
}

func TestARefusalIsAFailureWithTheProvidersError(t *testing.T) {
	bothWays(t, testARefusalIsAFailureWithTheProvidersError)
}

func testARefusalIsAFailureWithTheProvidersError(t *testing.T, do doing) {
	t.Helper()
	s := &sink{}
	r := do(t.Context(), t, replies(http.StatusTooManyRequests, "slow down"), s, attempt.Wait{})
	if r.err != nil || r.f == nil || r.f.Kind != upstream.ByStatus || r.f.Status != http.StatusTooManyRequests || r.f.Err.Message != "slow down" {
		t.Errorf("%+v, %v", r.f, r.err)
	}
}

func TestALongRefusalIsReadInPart(t *testing.T) { bothWays(t, testALongRefusalIsReadInPart) }

func testALongRefusalIsReadInPart(t *testing.T, do doing) {
	t.Helper()
	s := &sink{}
	do(t.Context(), t, replies(http.StatusBadRequest, strings.Repeat("x", attempt.MaxErrorBody+1)), s, attempt.Wait{})
	if s.body.Len() != attempt.MaxErrorBody {
		t.Errorf("%d bytes were read", s.body.Len())
	}
}

// An endless refusal is not read to its end, nor is the body of a status that has none.
func TestAnEndlessRefusalIsReadInPart(t *testing.T) { bothWays(t, testAnEndlessRefusalIsReadInPart) }

func testAnEndlessRefusalIsReadInPart(t *testing.T, do doing) {
	t.Helper()
	for status, body := range map[int]string{http.StatusBadRequest: strings.Repeat("x", attempt.MaxErrorBody+1), http.StatusSwitchingProtocols: ""} {
		synctest.Test(t, func(t *testing.T) {
			endless := streams(sends(piece{0, body}))
			r := do(t.Context(), t, func(r *http.Request) (*http.Response, error) {
				resp, err := endless(r)
				resp.StatusCode = status
				return resp, err
			}, &sink{}, attempt.Wait{})
			if r.err != nil || r.f == nil || r.f.Kind != upstream.ByStatus || r.f.Status != status || r.took > 0 {
				t.Errorf("%d: %+v, %v after %v", status, r.f, r.err, r.took)
			}
		})
	}
}

// An attempt that must not be made on a thread is not made there: nothing is sent.
func TestWhatNeedsTheListenerIsNotCalledOnAThread(t *testing.T) {
	at := newAttempt(t)
	at.View.Config.Provider("p").Spread, at.View.Affinity.Hash = true, 1
	d := &thread{ctx: t.Context(), came: make(chan struct{}, 1), transport: func(*http.Request) (*http.Response, error) {
		t.Error("it was called")
		return nil, errBroken
	}}
	w, _ := newWriter(nil)
	f, err := w.Do(t.Context(), at, (&sink{}).open, attempt.Wait{Caller: d})
	if f == nil || f.Kind != upstream.NotEncoded || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAnAnswerOfEnvoysOwnIsNoRefusalOfTheProvider(t *testing.T) {
	bothWays(t, testAnAnswerOfEnvoysOwnIsNoRefusalOfTheProvider)
}

func testAnAnswerOfEnvoysOwnIsNoRefusalOfTheProvider(t *testing.T, do doing) {
	t.Helper()
	s := &sink{}
	r := do(t.Context(), t, func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable, Body: http.NoBody,
			Header: http.Header{http.CanonicalHeaderKey(state.HeaderFailure): {"upstream_reset_before_response_started{connection_failure}"}},
		}, nil
	}, s, attempt.Wait{})
	if r.err != nil || r.f == nil || r.f.Kind != upstream.NoConnection || s.status != 0 {
		t.Errorf("%+v, %v; the sink has status %d", r.f, r.err, s.status)
	}
}

func TestTimeLimitsOfAStream(t *testing.T) { bothWays(t, testTimeLimitsOfAStream) }

func testTimeLimitsOfAStream(t *testing.T, do doing) {
	t.Helper()
	for _, row := range []struct {
		name     string
		upstream transport
		cause    error
		took     time.Duration
	}{
		{"no response headers", silent, attempt.ErrFirstToken, firstToken},
		{"no body", streams(sends()), attempt.ErrFirstToken, firstToken},
		{"a body without content", streams(sends(piece{time.Second, "role"})), attempt.ErrFirstToken, firstToken},
		{"silence after content", streams(sends(piece{time.Second, "content"})), attempt.ErrIdle, time.Second + idle},
		{
			"content that keeps coming, then silence",
			streams(sends(piece{0, "content"}, piece{idle - 1, "content"})), attempt.ErrIdle, idle - 1 + idle,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if r := do(t.Context(), t, row.upstream, &sink{}, attempt.Wait{}); !r.isTimeout(row.cause) || r.took != row.took {
					t.Errorf("%+v, %v after %v, want %v after %v", r.f, r.err, r.took, row.cause, row.took)
				}
			})
		})
	}
}

func TestTheTotalTimeLimitIsAFailure(t *testing.T) { bothWays(t, testTheTotalTimeLimitIsAFailure) }

func testTheTotalTimeLimitIsAFailure(t *testing.T, do doing) {
	t.Helper()
	for name, f := range map[string]transport{"no response headers": silent, "a stream": streams(sends(piece{0, "content"}))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, upstream.ErrTotalTimeout)
				defer cancel()
				if r := do(ctx, t, f, &sink{}, attempt.Wait{}); !r.isTimeout(upstream.ErrTotalTimeout) || r.took != 5*time.Second {
					t.Errorf("%+v, %v after %v", r.f, r.err, r.took)
				}
			})
		})
	}
}

const disconnect = 3 * time.Second

func TestAClientDisconnectEndsTheAttempt(t *testing.T) {
	bothWays(t, testAClientDisconnectEndsTheAttempt)
}

func testAClientDisconnectEndsTheAttempt(t *testing.T, do doing) {
	t.Helper()
	for name, f := range map[string]transport{
		"before the response headers": silent, "in the middle of the answer": streams(sends(piece{0, "content"}, piece{disconnect + time.Second, "more"})),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{}
				if r := disconnects(t, do, f, s); !r.isDisconnect(disconnect) || strings.Contains(s.body.String(), "more") {
					t.Errorf("%+v, %v after %v, with %q", r.f, r.err, r.took, s.body.String())
				}
			})
		})
	}
}

// disconnects makes an attempt during which the client disconnects.
func disconnects(t *testing.T, do doing, f transport, s *sink) result {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	time.AfterFunc(disconnect, func() { cancel(errDisconnected) })
	return do(ctx, t, f, s, attempt.Wait{})
}

// The usage comes last. It is read after a client disconnect, because the answer is billed by it, but not awaited without limit.
func TestTheUsageIsAwaitedAfterADisconnect(t *testing.T) {
	for _, row := range []struct {
		name     string
		upstream transport
		took     time.Duration
		body     string
	}{
		{"one that comes", streams(sends(piece{0, "content stop"}, piece{disconnect + time.Second, " usage"})), disconnect + time.Second, "content stop usage"},
		{"one that never comes", streams(sends(piece{0, "content stop"})), disconnect + 2*time.Second, "content stop"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{}
				if r := disconnects(t, doWith, row.upstream, s); !r.isDisconnect(row.took) || s.body.String() != row.body {
					t.Errorf("%+v, %v after %v, with %q", r.f, r.err, r.took, s.body.String())
				}
			})
		})
	}
}

// On a thread the call ends with its client. What arrived before is read.
func TestTheUsageThatHasComeIsReadAfterADisconnect(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d, s := &leaver{cancel: func() { cancel(errDisconnected) }}, &sink{}
	w, _ := newWriter(nil)
	if f, err := w.Do(ctx, newAttempt(t), s.open, attempt.Wait{Caller: d}); f != nil || !errors.Is(err, errDisconnected) || s.body.String() != "content stop usage" {
		t.Errorf("%+v, %v, with %q", f, err, s.body.String())
	}
	if !d.closed {
		t.Error("the call was not closed")
	}
}

// A client's calls end with it. That is not a failure of the provider, which would be reported as down to other clients.
func TestACallThatEndedWithItsClientIsNoFailure(t *testing.T) {
	for name, heads := range map[string][]*stream.CallHead{
		"before the response headers": nil,
		"in a refusal":                {{Status: http.StatusTooManyRequests}},
		"in an answer":                {{Status: http.StatusOK}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errDisconnected)
			w, _ := newWriter(nil)
			f, err := w.Do(ctx, newAttempt(t), (&sink{}).open, attempt.Wait{Caller: &lost{heads: heads}})
			if f != nil || !errors.Is(err, errDisconnected) {
				t.Errorf("%+v, %v", f, err)
			}
			w, _ = newWriter(nil)
			f, err = w.Do(t.Context(), newAttempt(t), (&sink{}).open, attempt.Wait{Caller: &lost{heads: heads}})
			if f == nil || f.Kind != upstream.Reset || err != nil {
				t.Errorf("while the client is there: %+v, %v", f, err)
			}
		})
	}
}

func TestABodyThatEndsEarlyIsAFailure(t *testing.T) { bothWays(t, testABodyThatEndsEarlyIsAFailure) }

func testABodyThatEndsEarlyIsAFailure(t *testing.T, do doing) {
	t.Helper()
	for _, row := range []struct {
		name  string
		f     transport
		cause error
	}{
		{"at its end", replies(http.StatusOK, "content"), io.ErrUnexpectedEOF},
		{"by an error", streams(func(_ context.Context, w *io.PipeWriter) { _ = w.CloseWithError(errBroken) }), errBroken},
		{"before its head", func(*http.Request) (*http.Response, error) { return nil, errBroken }, errBroken},
	} {
		t.Run(row.name, func(t *testing.T) {
			if r := do(t.Context(), t, row.f, &sink{}, attempt.Wait{}); r.err != nil || r.f == nil || r.f.Kind != upstream.Reset || !errors.Is(r.f.Cause, row.cause) {
				t.Errorf("%+v, %v", r.f, r.err)
			}
		})
	}
}

func TestTheSinkEndsAnAttempt(t *testing.T) { bothWays(t, testTheSinkEndsAnAttempt) }

func testTheSinkEndsAnAttempt(t *testing.T, do doing) {
	t.Helper()
	refused := &upstream.Failure{Provider: "p", Kind: upstream.ByStatus}
	if r := do(t.Context(), t, replies(http.StatusOK, "content"), &sink{failure: refused}, attempt.Wait{}); r.f != refused || r.err != nil {
		t.Errorf("a failure of the answer: %+v, %v", r.f, r.err)
	}
	if r := do(t.Context(), t, replies(http.StatusOK, "content"), &sink{passErr: errDisconnected}, attempt.Wait{}); r.f != nil || !errors.Is(r.err, errDisconnected) {
		t.Errorf("an error of the client's stream: %+v, %v", r.f, r.err)
	}
}

// A connection whose body is not read to its end cannot be used again.
func TestTheEndOfACompleteAnswersBodyIsAwaited(t *testing.T) {
	bothWays(t, testTheEndOfACompleteAnswersBodyIsAwaited)
}

func testTheEndOfACompleteAnswersBodyIsAwaited(t *testing.T, do doing) {
	t.Helper()
	for _, row := range []struct {
		name string
		ends time.Duration
		took time.Duration
	}{
		{"a body that ends", 100 * time.Millisecond, 100 * time.Millisecond},
		{"one that does not", time.Hour, 250 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := do(t.Context(), t, streams(func(ctx context.Context, w *io.PipeWriter) {
					sends(piece{0, "content done"}, piece{row.ends, ""})(ctx, w)
					_ = w.Close()
				}), &sink{}, attempt.Wait{})
				if r.f != nil || r.err != nil || r.took != row.took {
					t.Errorf("%+v, %v after %v", r.f, r.err, r.took)
				}
			})
		})
	}
}

// panicking is a body whose reading panics.
type panicking struct{ io.ReadCloser }

func (panicking) Read([]byte) (int, error) { panic("a fault") }

func (panicking) Close() error { return nil }

func TestAPanicOfTheTransportIsAnErrorOfTheRequest(t *testing.T) {
	for name, f := range map[string]transport{
		"sending": func(*http.Request) (*http.Response, error) { panic("a fault") },
		"reading": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: panicking{}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newWriter(f)
			if f, err := w.Do(t.Context(), newAttempt(t), (&sink{}).open, attempt.Wait{}); f != nil || !attempt.IsPanic(err) || o.panics != 1 {
				t.Errorf("%+v, %v; the owner counts %d panics", f, err, o.panics)
			}
		})
	}
}

func TestHeartbeatsWhileAnAttemptIsSilent(t *testing.T) {
	bothWays(t, testHeartbeatsWhileAnAttemptIsSilent)
}

func testHeartbeatsWhileAnAttemptIsSilent(t *testing.T, do doing) {
	t.Helper()
	for name, f := range map[string]transport{"no response headers": silent, "no body": streams(sends())} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				beat, beats := attempt.NewBeat(3*time.Second), 0
				defer beat.Stop()
				r := do(t.Context(), t, f, &sink{}, attempt.Wait{Beat: beat, OnHeartbeat: func() error {
					beat.Sent()
					if beats++; beats == 3 {
						return errDisconnected
					}
					return nil
				}})
				if beats != 3 || !errors.Is(r.err, errDisconnected) || r.took != 9*time.Second {
					t.Errorf("%d heartbeats, %v after %v", beats, r.err, r.took)
				}
			})
		})
	}
}

// TestWhatNeedsTheListenerGoesThere: streams whose usage may have to be awaited after their client, and conversations at one of several endpoints.
func TestWhatNeedsTheListenerGoesThere(t *testing.T) {
	for _, row := range []struct {
		name     string
		change   func(*attempt.Attempt)
		listener bool
	}{
		{"a stream", func(*attempt.Attempt) {}, false},
		{"a stream of a model that may reason", func(a *attempt.Attempt) { a.To.Thinks = policy.ThinksAlways }, true},
		{"a whole answer of a model that may reason", func(a *attempt.Attempt) { a.To.Thinks = policy.ThinksAlways; a.View.Request.Stream = false }, false},
		{"a conversation", func(a *attempt.Attempt) { a.View.Affinity.Hash = 7 }, false},
		{"a conversation at several endpoints", func(a *attempt.Attempt) { a.View.Affinity.Hash = 7; spread(a) }, true},
		{"several endpoints", spread, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := newAttempt(t)
			row.change(a)
			var affinity string
			took := map[bool]int{}
			through := func(listener bool) transport {
				return func(r *http.Request) (*http.Response, error) {
					took[listener]++
					affinity = r.Header.Get(state.HeaderAffinity)
					return replies(http.StatusOK, "done")(r)
				}
			}
			w, _ := newWriter(through(false))
			w.Listener = &http.Client{Transport: through(true)}
			if f, err := w.Do(t.Context(), a, (&sink{}).open, attempt.Wait{}); f != nil || err != nil {
				t.Fatal(f, err)
			}
			if took[row.listener] != 1 || took[!row.listener] != 0 {
				t.Errorf("by way of the listener: %v", took)
			}
			if several := a.View.Config.Provider("p").Spread && a.View.Affinity.Hash != 0; several != (affinity != "") {
				t.Errorf("the affinity is %q", affinity)
			}
		})
	}
}

// spread gives an attempt's provider several endpoints.
func spread(a *attempt.Attempt) {
	a.View.Config.Provider("p").Spread = true
}
