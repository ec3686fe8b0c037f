package modality

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Call is one request and its candidates.
type Call struct {
	*Request

	View   *request.View // with its candidates in order
	Egress *http.Client  // see upstream.NewEgressClient
	Sink   Sink

	redactor *secret.Redactor
}

// forwarder passes an answer on to the client.
type forwarder struct{ restorer pipeline.Restorer }

// forwarderOf returns the forwarder of an answer of a content type.
func (c *Call) forwarderOf(kind string) forwarder {
	if c.View.NewRestorer == nil {
		return forwarder{}
	}
	return forwarder{c.View.NewRestorer(strings.HasPrefix(kind, header.JSON) || strings.HasPrefix(kind, header.EventStream))}
}

// piece returns the client's bytes for a piece of the answer.
func (p forwarder) piece(b []byte, last bool) []byte {
	if p.restorer == nil {
		return b
	}
	out := p.restorer.Feed(nil, b)
	if last {
		out = p.restorer.Close(out)
	}
	return out
}

// Sink records what happens to a call, and keeps its bill.
type Sink interface {
	// Endpoint returns a provider's endpoint, with an acquired key.
	Endpoint(id policy.ProviderID) provider.Endpoint
	// AttemptStarts is called before each attempt.
	AttemptStarts(to *policy.Resolution)
	// Attested stores the proof of an answer after its verification, and before anything of the answer is used.
	Attested(ctx context.Context, to *policy.Resolution, p *attestation.Proof) error
	// Void records that an attested answer is an error: its receipt is void.
	Void(ctx context.Context, to *policy.Resolution, p *attestation.Proof)
	// Failed records a failed attempt, and the decision after it.
	Failed(to *policy.Resolution, f *upstream.Failure, next upstream.Decision)
	// Settle charges for an answer, or the received part of it, and returns the cost headers. It is called once.
	Settle(ctx context.Context, to *policy.Resolution, u *Used, outcome string) (header.List, error)
	// Headers returns the headers of a candidate's answer, without its cost.
	Headers(to *policy.Resolution) header.List
	// Exhausted returns the client's error when no candidate answered.
	Exhausted(failures []*upstream.Failure) error
}

// Do calls the candidates until one answers. An error that is a fault has not been sent yet. A call continues after a client disconnect: the provider
// bills it anyway.
func (c *Call) Do(client context.Context, d stream.Client) error {
	c.redactor = c.View.Redactor()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(client), c.View.Config.Timeouts.Total, upstream.ErrTotalTimeout)
	defer cancel()
	seq := upstream.Sequence{Candidates: c.View.Order, MaxRetries: c.View.Config.MaxRetries}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		c.Sink.AttemptStarts(to)
		resp, f, err := c.attempt(ctx, to) //nolint:bodyclose // answer does it
		if err != nil {
			return err
		}
		if f == nil {
			return c.answer(client, ctx, d, to, resp)
		}
		c.Sink.Failed(to, f, seq.Failed(upstream.State{Failure: f, Over: ctx.Err() != nil || client.Err() != nil}, *to))
	}
	return c.exhausted(client, seq.Failures)
}

// exhausted ends a call after all candidates failed.
func (c *Call) exhausted(client context.Context, failures []*upstream.Failure) error {
	if client.Err() != nil {
		return context.Cause(client)
	}
	return c.Sink.Exhausted(failures)
}

// attempt calls one candidate. The answer is a successful one; the caller closes its body.
func (c *Call) attempt(ctx context.Context, to *policy.Resolution) (*http.Response, *upstream.Failure, error) {
	req, proof, err := c.request(ctx, to)
	if err != nil {
		return nil, nil, err
	}
	resp, err := c.Egress.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.TimedOut, Cause: context.Cause(ctx)}, nil
	case err != nil:
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: err}, nil
	case resp.Header.Get(state.HeaderFailure) != "":
		defer upstream.CloseBody(resp)
		return nil, upstream.Local(to.Provider, resp.StatusCode, resp.Header.Get(state.HeaderFailure)), nil
	case resp.StatusCode/100 == 2:
		if f := c.View.UnconfirmedModality(to, c.Op.Sealed(), upstream.HeaderList(resp.Header)); f != nil {
			upstream.CloseBody(resp)
			return nil, f, nil
		}
		if proof != nil {
			return c.proved(ctx, to, resp, proof)
		}
		return resp, nil, nil
	}
	defer upstream.CloseBody(resp)
	return nil, c.stated(to, resp), nil
}

// stated returns the failure of an answer that is an error.
func (c *Call) stated(to *policy.Resolution, resp *http.Response) *upstream.Failure {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errbody.MaxBody)) // as much as can be read
	e := errbody.Parse(resp.StatusCode, upstream.HeaderList(resp.Header), c.redactor.Bytes(body))
	e.Dialect = chat.OpenAI
	return upstream.Stated(to.Provider, e)
}

// forwardedHeaders are the client's headers that are sent to the provider.
var forwardedHeaders = []string{"accept", "user-agent", "idempotency-key"}

// request returns the HTTP request to a candidate, through Envoy's egress listener, and the proof of its answer.
func (c *Call) request(ctx context.Context, to *policy.Resolution) (*http.Request, *attestation.Proof, error) {
	at := c.Sink.Endpoint(to.Provider)
	p := c.View.Config.Provider(to.Provider)
	name := Upstream(to)
	relay, _ := p.Adapter.(provider.Relay) // candidates without one were removed by serves
	call := relay.Relay(c.Op.Endpoint, name, at)
	proof := (*attestation.Proof)(nil)
	if c.Op.Sealed() {
		if trusted, by := c.View.Attests(to); trusted != nil {
			proof = attestation.New(trusted, by, name)
			call.Header = append(call.Header, proof.RequestHeaders()...)
		}
	}
	more, err := c.View.ForGateway(to.Provider)
	if err != nil {
		return nil, nil, err
	}
	call.Header = append(call.Header, more...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress"+call.Path, bytes.NewReader(c.Body(name)))
	if err != nil {
		return nil, nil, err
	}
	req.Host = at.Authority
	for _, name := range forwardedHeaders {
		if v := c.View.Head.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	for _, f := range call.Header {
		req.Header.Set(f.Name, f.Value)
	}
	req.Header.Set("Content-Type", c.ContentType)
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(p.Cluster))
	req.Header.Set(state.HeaderExchange, c.View.Config.EgressSecret+"."+c.View.ID)
	return req, proof, nil
}

// answer passes on a candidate's answer: JSON and text as a whole, with the cost in the headers; audio and events as they arrive.
func (c *Call) answer(client, ctx context.Context, d stream.Client, to *policy.Resolution, resp *http.Response) error {
	defer upstream.CloseBody(resp)
	kind := strings.ToLower(resp.Header.Get("Content-Type"))
	if strings.HasPrefix(kind, header.EventStream) || c.Op.Feature == policy.Speech && !strings.HasPrefix(kind, header.JSON) {
		return c.stream(client, ctx, d, to, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.View.Config.MaxAnswer+1))
	if err == nil && int64(len(body)) > c.View.Config.MaxAnswer {
		err = upstream.ErrTooLong
	}
	if err != nil {
		return c.broken(ctx, to, err)
	}
	if e := statedError(body); e != nil {
		return c.refused(to, upstream.Stated(to.Provider, e))
	}
	u := c.Read(to, body)
	body = c.forwarderOf(kind).piece(body, true)
	cost, err := c.Sink.Settle(ctx, to, &u, outcome(client))
	if err != nil {
		return err
	}
	h := append(c.headers(to, resp), cost...)
	if len(body) <= stream.MaxPiece {
		return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: body})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	return d.StreamBody(body, true)
}

// outcome returns the outcome of a request with a complete answer.
func outcome(client context.Context) string {
	if client.Err() != nil {
		return record.Disconnected
	}
	return record.OK
}

// broken ends a call whose answer broke off before any of it was sent. Nothing is charged.
func (c *Call) broken(ctx context.Context, to *policy.Resolution, err error) error {
	f := &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: err}
	if ctx.Err() != nil {
		f.Kind, f.Cause = upstream.TimedOut, context.Cause(ctx)
	}
	return c.refused(to, f)
}

// refused ends a call whose answer turned out to be an error.
func (c *Call) refused(to *policy.Resolution, f *upstream.Failure) error {
	c.Sink.Failed(to, f, upstream.Decision{Move: upstream.Stop, Why: "its answer had begun"})
	return c.Sink.Exhausted([]*upstream.Failure{f})
}

// statedError returns the error in a body with a success status; nil for an answer.
func statedError(body []byte) *chat.ProviderError {
	v, err := jsonx.Parse(body)
	if err != nil || v.Get("error").IsNull() {
		return nil
	}
	for _, member := range [...]string{"data", "results", "text"} {
		if v.Get(member).Exists() {
			return nil
		}
	}
	e := errbody.InStream(v)
	e.Dialect = chat.OpenAI
	return e
}

// headers returns the headers of an answer without its cost.
func (c *Call) headers(to *policy.Resolution, resp *http.Response) header.List {
	h := c.Sink.Headers(to)
	for _, name := range []string{"content-type", "content-disposition"} {
		if v := resp.Header.Get(name); v != "" {
			h = append(h, header.Field{Name: name, Value: c.redactor.String(v)})
		}
	}
	return h
}

// stream passes on an answer piece by piece. After a client disconnect it is read to its end, which has the usage.
func (c *Call) stream(client, ctx context.Context, d stream.Client, to *policy.Resolution, resp *http.Response) error {
	kind := resp.Header.Get("Content-Type")
	w, way := c.watch(to, kind), c.forwarderOf(strings.ToLower(kind))
	sent := d.StreamHead(resp.StatusCode, c.headers(to, resp))
	buf := make([]byte, stream.MaxPiece)
	for {
		n, err := resp.Body.Read(buf)
		w.take(buf[:n])
		if w.length > c.View.Config.MaxAnswer {
			err = upstream.ErrTooLong
		}
		if err != nil {
			return c.finish(client, ctx, d, to, w, way.piece(buf[:n], true), sent, err)
		}
		if sent == nil {
			sent = d.StreamBody(way.piece(buf[:n], false), false)
		}
	}
}

// finish charges for an answer that has ended, before its last piece is sent. An incomplete one is broken off.
func (c *Call) finish(client, ctx context.Context, d stream.Client, to *policy.Resolution, w *watch, last []byte, sent, end error) error {
	u, how := w.end(), outcome(client)
	complete := errors.Is(end, io.EOF)
	switch {
	case !complete || w.failed:
		how = record.Cut
	case sent != nil || how != record.OK:
		how = record.Cancelled
	}
	if _, err := c.Sink.Settle(context.WithoutCancel(ctx), to, &u, how); err != nil {
		return errors.Join(stream.ErrTruncated, err)
	}
	switch {
	case sent != nil:
		return sent
	case !complete:
		return errors.Join(stream.ErrTruncated, end)
	}
	return d.StreamBody(last, true)
}
