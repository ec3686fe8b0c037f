package extproc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/batch"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
	"bardo.money/gateway/xds/state"
)

type pipelineEntry = pipeline.Entry

// laterRun is what an exchange has that answers a deferred request. A nil one is of an exchange with a client.
type laterRun struct {
	run    *deferred.Run
	next   http.RoundTripper
	most   int64            // bytes of an answer that is stored
	masked func() bool      // see isMasked
	batch  *deferred.Call   // a result of a batch that answers the first attempt; nil for none
	first  *attempt.Attempt // that it answers
	booked bool
	billed bool // at a batch's price

	mu   sync.Mutex // guards used: calls beside the first run in goroutines of their own
	used bool       // the result was read
}

// deferredRunner serves deferred requests.
type deferredRunner struct{ *Gateway }

var _ deferred.Runner = deferredRunner{}

// newRun begins an exchange that serves a deferred request.
func (g *Gateway) newRun(r *deferred.Request, run *deferred.Run) (*exchange, *detached) {
	x := g.newExchangeAs(r.Head, r.ID)
	l := &laterRun{run: run, next: g.egressClient().Transport, most: x.Config.MaxAnswer, masked: x.isMasked}
	for i := range run.Calls {
		if run.Calls[i].Batch {
			l.batch = &run.Calls[i]
		}
	}
	x.later = l
	x.calls.Client = &http.Client{Transport: l, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	x.calls.Listener = nil
	return x, &detached{body: r.Body}
}

// Answer implements deferred.Runner.
func (g deferredRunner) Answer(ctx context.Context, r *deferred.Request, run *deferred.Run) deferred.Served {
	x, d := g.newRun(r, run)
	err := x.serve(ctx, d, func() error {
		if err := x.prepareRun(ctx, d, r); err != nil {
			return err
		}
		return x.drive(ctx, d)
	})
	s := deferred.Served{Booked: x.later.booked}
	if err != nil || d.reply == nil {
		s.Again = !s.Booked
		return s
	}
	s.Reply = *d.reply
	s.Again = !s.Booked && !run.Last && mayPass(d.reply.Status)
	return s
}

// mayPass reports whether a later run may be answered, where this one was not.
func mayPass(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// prepareRun does what is done with any request before its call, but for what was done when it was accepted: its limits and its reservation.
func (x *exchange) prepareRun(ctx context.Context, d *detached, r *deferred.Request) error {
	e, err := endpoint.Find(&x.Head)
	if err != nil {
		return err
	}
	x.trace.Operation = e.Operation()
	if err := x.identifyLater(ctx, r); err != nil {
		return err
	}
	if err := x.parseHeaders(); err != nil {
		return err
	}
	if err := x.read(d, e, false); err != nil {
		return err
	}
	if err := x.candidates(ctx); err != nil {
		return err
	}
	if err := x.prepare(ctx); err != nil {
		return err
	}
	x.pinBatch()
	if x.ownKeysPay(x.Order) {
		return x.bill.Reserve(ctx, 0)
	}
	if err := x.bill.Reserve(ctx, x.worst(x.Order)); err != nil {
		return err
	}
	x.limitOutput()
	return nil
}

// identifyLater finds the account of a deferred request. A key that was revoked is served only what was done for it before.
func (x *exchange) identifyLater(ctx context.Context, r *deferred.Request) error {
	row, ok, err := x.gw.Ledger.Key(ctx, r.Account)
	if err != nil {
		return fault.New(fault.Unavailable, "API keys cannot be read at the moment", err)
	}
	if !ok || row.Revoked() && len(x.later.run.Calls) == 0 {
		return fault.Newf(fault.InvalidAPIKey, "this API key was revoked")
	}
	x.Principal = row.Principal()
	x.bill.Charge(x.Principal, x.gw.meter.LaterPayerOf(&x.Principal), x.Config.Spread(x.Principal.Tier))
	return nil
}

// modelName is a candidate as a batch names its model.
func modelName(to *policy.Resolution) string { return string(to.Provider) + "/" + string(to.Model) }

// pinBatch calls the candidate first whose answer is here already. It may not be one any more.
func (x *exchange) pinBatch() {
	l := x.later
	if l.batch == nil {
		return
	}
	is := func(to policy.Resolution) bool { return modelName(&to) == l.batch.Model }
	i := slices.IndexFunc(x.Found, is)
	if i < 0 || x.Config.Providers[x.Found[i].Provider].Batches == "" {
		l.batch = nil
		return
	}
	x.Order = append([]policy.Resolution{x.Found[i]}, slices.DeleteFunc(slices.Clone(x.Order), is)...)
}

// claim has an attempt answered by the result of a batch, at a batch's price, if it is the first of that model.
func (l *laterRun) claim(v *request.View, t *attempt.Attempt) {
	if l == nil || l.batch == nil || l.first != nil || modelName(&t.To) != l.batch.Model {
		return
	}
	l.first = t
	t.To.Prices = t.To.Prices.Percent(int64(v.Config.Providers[t.To.Provider].BatchPct))
}

// firstKey is the key of a context's value: the call is the attempt that the result of a batch answers.
type firstKey struct{}

// with is the context of an attempt's call.
func (l *laterRun) with(ctx context.Context, t *attempt.Attempt) context.Context {
	if l == nil || l.first != t {
		return ctx
	}
	return context.WithValue(ctx, firstKey{}, true)
}

// tierBatch is what the request's record says of an answer at a batch's price.
const tierBatch = "batch"

// paidAsBatch reports whether the request has an answer at a batch's price.
func (l *laterRun) paidAsBatch() bool { return l != nil && l.billed }

// answers notes that an attempt has an answer.
func (l *laterRun) answers(t *attempt.Attempt) {
	if l != nil && l.first == t {
		l.billed = true
	}
}

// interrupted reports whether a run ended without an end of its request: the gateway stops, or the request's time is over. Nothing is settled then.
func (l *laterRun) interrupted(x *exchange) bool {
	return l != nil && x.trace.Settled == nil && x.trace.Fault == nil
}

// runsAgain reports whether a run failed for a reason that may pass, and owes nothing: it is not booked, because a request is booked once.
func (l *laterRun) runsAgain(x *exchange) bool {
	return l != nil && !l.run.Last && x.trace.Fault != nil && len(x.bill.Calls()) == 0 && mayPass(x.trace.Fault.HTTPStatus())
}

// note is told that the request was booked.
func (l *laterRun) note() {
	if l != nil {
		l.booked = true
	}
}

// callDigest identifies a call of a provider.
func callDigest(cluster, path string, body []byte) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n", cluster, path) // never fails (hash.Hash)
	h.Write(body)
	return h.Sum(nil)
}

// RoundTrip implements http.RoundTripper: what was answered before is not asked again, and what is answered now is stored before it is used.
func (l *laterRun) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	digest := callDigest(req.Header.Get(state.HeaderCluster), req.URL.Path, body)
	if c := l.stored(req.Context(), digest); c != nil {
		return response(req, c), nil
	}
	resp, err := l.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer upstream.CloseBody(resp)
	text, err := io.ReadAll(io.LimitReader(resp.Body, l.most+1))
	if err != nil {
		return nil, err
	}
	c := deferred.Call{Digest: digest, Status: resp.StatusCode, Body: text}
	if int64(len(text)) <= l.most {
		if err := l.run.Keep(&c); err != nil {
			return nil, fmt.Errorf("storing an answer: %w", err)
		}
	}
	return response(req, &c), nil
}

// bodyOf is the body of a request that can be sent again.
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

// stored is the answer of an earlier run to a call, or of a batch to the first attempt; nil for none. A batch's answers the request as it is written today,
// which may differ if the configuration does, unless values were masked in it.
func (l *laterRun) stored(ctx context.Context, digest []byte) *deferred.Call {
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

// response is a stored answer as its provider gave it.
func response(req *http.Request, c *deferred.Call) *http.Response {
	return &http.Response{
		StatusCode: c.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {header.JSON}},
		Body: io.NopCloser(bytes.NewReader(c.Body)), ContentLength: int64(len(c.Body)), Request: req,
	}
}

// Plan implements deferred.Runner.
func (g deferredRunner) Plan(ctx context.Context, r *deferred.Request) (p *deferred.Planned, err error) {
	x, d := g.newRun(r, &deferred.Run{})
	defer x.abandon()
	err = x.guarded(func() error {
		if err := x.prepareRun(ctx, d, r); err != nil {
			return err
		}
		p, err = x.planBatch()
		return err
	})
	return p, err
}

// abandon ends an exchange of which nobody is told.
func (x *exchange) abandon() {
	defer x.recoverPanic()
	x.bill.Release()
	x.gw.Metrics.ExchangeEnded()
	x.letGo()
}

// planBatch writes the request's call as part of a batch: of the first candidate that has a batch API where it costs no more than the first candidate does
// otherwise. nil: there is none, or the request is none that can be answered so.
func (x *exchange) planBatch() (*deferred.Planned, error) {
	if _, tier := x.RequestedTier(); tier != "" || x.review.MayReplaceAnswer() || x.Rounds() > 0 || x.NamesStored || len(x.Order) == 0 {
		return nil, nil //nolint:nilnil // nothing is a plan
	}
	usual := x.worstPico(&x.Order[0])
	for i := range x.Order {
		to := &x.Order[i]
		p := x.Config.Providers[to.Provider]
		if p.Batches == "" || x.CallerPays(to.Provider) || !to.Prices.Known || to.Staked != nil {
			continue
		}
		cheaper := *to
		if cheaper.Prices = to.Prices.Percent(int64(p.BatchPct)); x.worstPico(&cheaper) > usual {
			continue
		}
		return x.writePlanned(to, &p.Endpoint)
	}
	return nil, nil //nolint:nilnil // nothing is a plan
}

// worstPico is the highest cost of the request at a candidate.
func (x *exchange) worstPico(to *policy.Resolution) policy.Pico {
	return resolve.WorstCost([]policy.Resolution{*to}, x.Request.MaxInput, int64(x.MaxTokens()), int64(x.Request.Choices))
}

// writePlanned writes the call of a candidate.
func (x *exchange) writePlanned(to *policy.Resolution, at *provider.Endpoint) (*deferred.Planned, error) {
	call, err := x.encode(nil, to)
	if err != nil {
		return nil, err
	}
	path, ok := strings.CutPrefix(call.Path, at.BasePath)
	if !ok || strings.Contains(path, "?") {
		return nil, nil //nolint:nilnil // nothing is a plan
	}
	key := x.calls.LastKey(to.Provider).ID()
	if key == "" {
		key = keyring.Fingerprint(at.Key.Reveal())
	}
	cluster := state.Cluster(x.Config.Providers[to.Provider].Cluster)
	return &deferred.Planned{
		Provider: to.Provider, Key: string(key), Path: path, Model: modelName(to), Beta: call.Header.Get("anthropic-beta"),
		Digest: callDigest(cluster, call.Path, call.Body), Masked: x.isMasked(), Body: bytes.Clone(call.Body),
	}, nil
}

// Expired implements deferred.Runner.
func (g deferredRunner) Expired(r *deferred.Request) stream.Reply {
	rt := g.runtime.Load()
	x := &exchange{View: request.View{Config: rt, Dialect: rt.Dialects[r.Dialect]}, gw: g.Gateway}
	x.ID = r.ID
	x.bill.Open(g.meter, x, x.ID)
	return x.errorReply(fault.Newf(fault.UpstreamTimeout, "no provider answered this deferred request by its time"))
}

// Target implements deferred.Runner.
func (g deferredRunner) Target(id policy.ProviderID, key string) (t batch.Target, ok bool) {
	rt := g.runtime.Load()
	p := rt.Providers[id]
	if p.Batches == "" {
		return t, false
	}
	for _, k := range append([]provider.Secret{p.Endpoint.Key}, p.Keys...) {
		if string(keyring.Fingerprint(k.Reveal())) != key {
			continue
		}
		at := p.Endpoint
		at.Key = k
		return batch.Target{
			Form: p.Batches, Provider: id, Authority: at.Authority, BasePath: at.BasePath, Header: p.Adapter.Ping(at).Header, Cluster: p.Cluster,
			Exchange: rt.EgressSecret + ".deferred", Client: g.egressClient(),
		}, true
	}
	return t, false
}

// Idle implements deferred.Runner.
func (g deferredRunner) Idle() bool { return g.Live() == 0 }

// Draining implements deferred.Runner.
func (g deferredRunner) Draining() bool { return g.Gateway.Draining() }
