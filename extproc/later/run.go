package later

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// Run is the run of a deferred request. On a nil Run, of an exchange with a client, the methods do nothing. It belongs to the goroutine of its
// exchange; RoundTrip is safe for concurrent use.
type Run struct {
	run      *deferred.Run
	next     http.RoundTripper
	maxBytes int64            // maximum size of a stored answer, in bytes
	masked   func() bool      // see IsMasked
	over     func() bool      // reports whether the request was cancelled since the run began
	batch    *deferred.Call   // the batch result that answers the first attempt; nil for none
	first    *attempt.Attempt // the attempt that it answers
	booked   bool             // by this run
	billed   bool             // at a batch's price

	mu   sync.Mutex // guards used: side calls run in goroutines of their own
	used bool       // the batch result was read
}

// NewRun returns a run of a request, until ctx ends. next makes the calls; an answer of more than maxBytes is not stored; masked reports whether
// values of the request, as encoded now, were masked.
func NewRun(ctx context.Context, run *deferred.Run, next http.RoundTripper, maxBytes int64, masked func() bool) *Run {
	l := &Run{run: run, next: next, maxBytes: maxBytes, masked: masked, over: func() bool { return errors.Is(context.Cause(ctx), deferred.ErrCancelled) }}
	for i := range run.Calls {
		if run.Calls[i].Batch {
			l.batch = &run.Calls[i]
		}
	}
	return l
}

// Served returns the result of the run: err is its error, and got its client's answer, nil for none.
func (l *Run) Served(err error, got *stream.Reply) deferred.Served {
	s := deferred.Served{Booked: l.booked}
	switch {
	case l.over(): // the answer is discarded, and it does not run again
	case err != nil || got == nil:
		s.Again = !s.Booked
	default:
		s.Reply = *got
		s.Again = !s.Booked && !l.run.Last && mayPass(got.Status)
	}
	return s
}

// Calls returns how many answers of providers the request has from earlier runs.
func (l *Run) Calls() int { return len(l.run.Calls) }

// mayPass reports whether a later run may succeed after this status.
func mayPass(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// Claim makes a batch's result answer an attempt, at the batch's price, if it is the first of that model.
func (l *Run) Claim(v *request.View, t *attempt.Attempt) {
	if l == nil || l.batch == nil || l.first != nil || modelName(&t.To) != l.batch.Model {
		return
	}
	l.first = t
	t.To.Prices = t.To.Prices.Percent(int64(v.Config.Provider(t.To.Provider).BatchPct))
}

// firstKey is the context key that marks the call of the attempt which the batch's result answers.
type firstKey struct{}

// With returns the context of an attempt's call.
func (l *Run) With(ctx context.Context, t *attempt.Attempt) context.Context {
	if l == nil || l.first != t {
		return ctx
	}
	return context.WithValue(ctx, firstKey{}, true)
}

// TierBatch is the service tier, in the request's record, of an answer at a batch's price.
const TierBatch = "batch"

// PaidAsBatch reports whether the request has an answer at a batch's price.
func (l *Run) PaidAsBatch() bool { return l != nil && l.billed }

// Answers records that an attempt has an answer.
func (l *Run) Answers(t *attempt.Attempt) {
	if l != nil && l.first == t {
		l.billed = true
	}
}

// Interrupted reports whether a run ended before its request did: the gateway drains, or the request's time limit has expired. Nothing is settled
// then. A cancelled request is settled as after a client disconnect.
func (l *Run) Interrupted(t *record.Trace) bool {
	return l != nil && t.Settled == nil && t.Fault == nil && !l.over()
}

// RunsAgain reports whether a run failed for a temporary reason without a charge: it is not booked, because a request is booked once.
func (l *Run) RunsAgain(t *record.Trace, calls int) bool {
	return l != nil && !l.run.Last && !l.over() && t.Fault != nil && (calls == 0 && mayPass(t.Fault.HTTPStatus()) || l.Waits(t.Fault))
}

// Waits reports whether a run ended because a guardrail gave no verdict on its answer. The answer is stored, and charged when it is delivered.
func (l *Run) Waits(f *fault.Fault) bool {
	return l != nil && !l.run.Last && !l.over() && f.Kind == fault.GuardrailDown
}

// Note records that the request was booked.
func (l *Run) Note() {
	if l != nil {
		l.booked = true
	}
}

// callDigest identifies a provider call.
func callDigest(cluster, path string, body []byte) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n", cluster, path) // never fails (hash.Hash)
	h.Write(body)
	return h.Sum(nil)
}

// statusCancelled is the status of calls that are not made because the request was cancelled: a client error, so that no provider is blamed and none
// is called next.
const statusCancelled = 499

// RoundTrip implements http.RoundTripper: earlier answers are reused, and new ones are stored before they are used.
func (l *Run) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	digest := callDigest(req.Header.Get(state.HeaderCluster), req.URL.Path, body)
	if c := l.stored(req.Context(), digest); c != nil {
		return response(req, c), nil
	}
	if l.run.Cancelled {
		return response(req, &deferred.Call{Status: statusCancelled, Body: []byte("{}")}), nil
	}
	resp, err := l.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer upstream.CloseBody(resp)
	text, err := io.ReadAll(io.LimitReader(resp.Body, l.maxBytes+1))
	if err != nil {
		return nil, err
	}
	c := deferred.Call{Digest: digest, Status: resp.StatusCode, Body: text}
	if int64(len(text)) <= l.maxBytes {
		if err := l.run.Keep(&c); err != nil {
			return nil, fmt.Errorf("storing an answer: %w", err)
		}
	}
	return response(req, &c), nil
}

// bodyOf returns the body of a request that can be sent again.
func bodyOf(req *http.Request) ([]byte, error) {
	if req.GetBody == nil {
		return nil, errors.New("a call whose body cannot be read twice")
	}
	r, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// stored returns the answer of an earlier run to a call, or of a batch to the first attempt; nil for none. A batch's result answers the request as
// encoded today, which may differ after a configuration change, unless values in it were masked.
func (l *Run) stored(ctx context.Context, digest []byte) *deferred.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.batch; b != nil && !l.used && ctx.Value(firstKey{}) != nil && (bytes.Equal(b.Digest, digest) || !b.Masked && !l.masked()) {
		l.used = true
		return b
	}
	for i := range l.run.Calls {
		if c := &l.run.Calls[i]; !c.Batch && bytes.Equal(c.Digest, digest) {
			return c
		}
	}
	return nil
}

// response returns a stored answer as an HTTP response.
func response(req *http.Request, c *deferred.Call) *http.Response {
	return &http.Response{
		StatusCode: c.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {header.JSON}},
		Body: io.NopCloser(bytes.NewReader(c.Body)), ContentLength: int64(len(c.Body)), Request: req,
	}
}
