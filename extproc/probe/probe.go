// Package probe calls providers independently of requests: to check whether they respond and accept the gateway's credentials, and which models they
// have. It knows no prices and keeps no health.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Client calls providers through Envoy's egress listener. Safe for concurrent use.
type Client struct {
	Config *runtime.Config
	Egress *http.Client // see upstream.NewEgressClient
}

// Probe requests a provider's list of models, through Envoy's egress listener, with each of the gateway's credentials until one is accepted. Any
// answer below 500 counts as alive, except 401 and 403: those are a CredentialRefused. Without a connection the error is an *Unreachable, or an
// ErrNotAsked if Envoy does not know the provider yet.
func (c *Client) Probe(ctx context.Context, id policy.ProviderID) error {
	p, ok := c.Config.Find(id)
	if !ok {
		return fmt.Errorf("%w: provider %s is not configured", ErrNotAsked, id)
	}
	err := c.probe(ctx, p, p.Endpoint)
	for _, key := range p.Keys {
		if _, refused := errors.AsType[*CredentialRefused](err); !refused {
			return err
		}
		if at := p.Endpoint; key != at.Key {
			at.Key = key
			err = c.probe(ctx, p, at)
		}
	}
	return err
}

// ErrNotAsked is the error of a probe that did not reach Envoy, or whose provider Envoy does not know.
var ErrNotAsked = errors.New("the provider was not asked")

// Unreachable is the error of a probe that got no connection.
type Unreachable struct {
	Reason string // a short text
	cause  error
}

// Error returns the reason.
func (e *Unreachable) Error() string { return e.Reason }

// Unwrap returns Envoy's text.
func (e *Unreachable) Unwrap() error { return e.cause }

// CredentialRefused is the error of a probe whose credential the provider refuses.
type CredentialRefused struct {
	Status int    // 401 or 403
	Reason string // the status, and the provider's message without credentials
}

// Error returns the reason.
func (e *CredentialRefused) Error() string { return e.Reason }

// maxAnswer is the maximum number of bytes read of the answer to a probe.
const maxAnswer = 1 << 20

// probe calls a provider with one of its keys.
func (c *Client) probe(ctx context.Context, p *runtime.Provider, at provider.Endpoint) error {
	resp, err := c.ping(ctx, p, at, "") //nolint:bodyclose // CloseBody does it
	if err != nil {
		return err
	}
	defer upstream.CloseBody(resp)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if why := resp.Header.Get(state.HeaderFailure); why != "" {
		return unanswered(upstream.Local(at.Provider, resp.StatusCode, why))
	}
	f := &upstream.Failure{Provider: at.Provider, Status: resp.StatusCode, Err: pingError(p, at, resp, body)}
	c.Config.Secrets.Strings(&f.Err.Message)
	switch {
	case f.CredentialRefused() && (at.Key.IsSet() || !p.BYOK): // without its own key, the provider is only called with one from a request
		return &CredentialRefused{f.Status, f.Refusal()}
	case f.Status >= http.StatusInternalServerError:
		return fmt.Errorf("provider %s answered %d to a ping", at.Provider, f.Status)
	}
	return nil
}

// unanswered returns the error of a ping that Envoy answered.
func unanswered(f *upstream.Failure) error {
	switch {
	case f.Unknown:
		return fmt.Errorf("%w: %w", ErrNotAsked, f.Cause)
	case f.Kind == upstream.NoConnection:
		return &Unreachable{upstream.ConnectionReason(f.Cause), f.Cause}
	}
	return fmt.Errorf("provider %s did not answer a ping: %w", f.Provider, f.Cause)
}

// pingError returns the provider's error in its answer to a ping, if any.
func pingError(p *runtime.Provider, at provider.Endpoint, resp *http.Response, body []byte) *chat.ProviderError {
	e := &chat.ProviderError{Status: resp.StatusCode}
	if resp.StatusCode < http.StatusBadRequest {
		return e
	}
	to := policy.Resolution{Provider: at.Provider}
	req := &chat.Request{Dialect: p.Adapter.Dialect(to, at, at.Dialect)}
	for _, ev := range p.Adapter.NewDecoder(req, to, at, resp.StatusCode, upstream.HeaderList(resp.Header)).Decode(body, true) {
		if ev.Kind == chat.Error && ev.Err != nil {
			*e = *ev.Err
		}
	}
	return e
}

// ping sends a provider its cheapest request. etag identifies the known answer, "" if none is. The caller closes the answer's body.
func (c *Client) ping(ctx context.Context, p *runtime.Provider, at provider.Endpoint, etag string) (*http.Response, error) {
	return c.get(ctx, p, at, p.Adapter.Ping(at), etag)
}

// get sends a provider a call without a body, like ping.
func (c *Client) get(ctx context.Context, p *runtime.Provider, at provider.Endpoint, call *provider.Call, etag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://egress"+call.Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Host = at.Authority
	for _, f := range call.Header {
		req.Header.Set(f.Name, f.Value)
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(p.Cluster))
	req.Header.Set(state.HeaderExchange, c.Config.EgressSecret+".probe")
	return c.Egress.Do(req)
}

// ModelList is a provider's list of models.
type ModelList struct {
	Body      []byte // nil if unchanged
	ETag      string
	Unchanged bool
}

// maxModelList is the maximum size of a provider's list of models.
const maxModelList = 16 << 20

// ListModels requests a provider's list of models, in the same way as Probe. etag identifies the known list, "" if none is.
func (c *Client) ListModels(ctx context.Context, id policy.ProviderID, etag string) (ModelList, error) {
	p, ok := c.Config.Find(id)
	if !ok {
		return ModelList{}, fmt.Errorf("provider %s is not configured", id)
	}
	resp, err := c.ping(ctx, p, p.Endpoint, etag) //nolint:bodyclose // CloseBody does it
	if err != nil {
		return ModelList{}, err
	}
	defer upstream.CloseBody(resp)
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return ModelList{ETag: etag, Unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		return ModelList{}, fmt.Errorf("provider %s answered %d for its list of models %s", id, resp.StatusCode, resp.Header.Get(state.HeaderFailure))
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxModelList+1))
	switch {
	case err != nil:
		return ModelList{}, fmt.Errorf("provider %s broke off its list of models: %w", id, err)
	case len(b) > maxModelList:
		return ModelList{}, fmt.Errorf("provider %s: its list of models is larger than %d bytes", id, maxModelList)
	}
	return ModelList{Body: b, ETag: resp.Header.Get("ETag")}, nil
}
