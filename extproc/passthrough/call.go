package passthrough

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// forwardedHeaders are the client's headers that are sent to the provider.
var forwardedHeaders = []string{"accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key"}

// do sends the request and passes the answer on.
func (c *call) do(client context.Context, d stream.Client) error {
	ctx, cancel := context.WithTimeoutCause(client, c.Timeout, upstream.ErrTotalTimeout)
	defer cancel()
	req, err := c.request(ctx)
	if err != nil {
		return err
	}
	resp, err := c.s.Egress.Do(req)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if client.Err() != nil { // the client disconnected, which is unrelated to the provider
		c.ended(record.Disconnected, record.StatusClientClosed, nil)
		return context.Cause(client)
	}
	if f := c.failure(ctx, resp, err); f != nil {
		c.attempted(f.String(), f.Result())
		return c.refuse(f)
	}
	c.attempted(record.OK, policy.Result{Provider: c.id, Outcome: policy.Succeeded, Latency: time.Since(c.Started)})
	return c.answer(ctx, d, resp)
}

// attempted records the provider's result.
func (c *call) attempted(outcome string, r policy.Result) {
	a := record.Attempt{Provider: c.id, Outcome: outcome}
	c.attempts = append(c.attempts, a)
	c.Sink.Attempted(a)
	c.s.Health.Report(r)
}

// request returns the HTTP request to the provider, through Envoy's egress listener.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, c.Head.Method, "http://egress"+c.p.Endpoint.BasePath+c.path.below(), bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = header.QueryWithoutCredentials(c.Head.Query)
	req.Host = c.p.Endpoint.Authority
	for _, f := range c.credentials() {
		req.Header.Set(f.Name, f.Value)
	}
	for _, name := range forwardedHeaders {
		if v := c.Head.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	if len(c.body) > 0 {
		req.Header.Set("Content-Type", c.contentType)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(c.p.Cluster))
	req.Header.Set(state.HeaderExchange, c.EgressSecret+"."+c.ID)
	return req, nil
}

// credentials returns those of the provider's first key: a stored resource belongs to its account.
func (c *call) credentials() header.List { return c.p.Adapter.Ping(c.p.Endpoint).Header }

// failure returns why there is no answer for the caller; nil if there is one.
func (c *call) failure(ctx context.Context, resp *http.Response, err error) *upstream.Failure {
	switch {
	case err != nil && ctx.Err() != nil:
		return &upstream.Failure{Provider: c.id, Kind: upstream.TimedOut, Cause: context.Cause(ctx)}
	case err != nil:
		return &upstream.Failure{Provider: c.id, Kind: upstream.Reset, Cause: err}
	case resp.Header.Get(state.HeaderFailure) != "":
		return upstream.Local(c.id, resp.StatusCode, resp.Header.Get(state.HeaderFailure))
	}
	f := &upstream.Failure{Provider: c.id, Kind: upstream.ByStatus, Status: resp.StatusCode, RetryAfter: upstream.RetryAfter(resp.Header.Get("Retry-After"))}
	if f.Status/100 == 2 || f.Status == http.StatusGone || !f.Retriable() { // 410 is about the resource here, not a model
		return nil
	}
	return f
}

// refuse returns the caller's error for a provider's own failure, without its message, which may be about the key's account.
func (c *call) refuse(f *upstream.Failure) error {
	err := upstream.Exhausted([]*upstream.Failure{f})
	c.ended(record.Failed, err.HTTPStatus(), err)
	return err
}
