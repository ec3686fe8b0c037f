package extproc

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Probe asks a provider for its list of models, through Envoy's egress listener and with the gateway's credential. Any answer below
// 500 is a sign of life. Safe for concurrent use.
func (g *Gateway) Probe(ctx context.Context, id policy.ProviderID) error {
	resp, err := g.ping(ctx, id, "")
	if err != nil {
		return err
	}
	defer closeBody(resp)
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxErrorBody)); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("provider %s answered %d to a ping %s", id, resp.StatusCode, resp.Header.Get(state.HeaderFailure))
	}
	return nil
}

// ping sends a provider the cheapest request that it answers. etag names the answer that is known already, "" if none is. The caller
// closes the answer's body.
func (g *Gateway) ping(ctx context.Context, id policy.ProviderID, etag string) (*http.Response, error) {
	rt := g.runtime.Load()
	p, ok := rt.Providers[id]
	if !ok {
		return nil, fmt.Errorf("provider %s is not configured", id)
	}
	call := p.Adapter.Ping(p.Endpoint)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://egress"+call.Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Host = p.Endpoint.Authority
	for _, f := range call.Header {
		req.Header.Set(f.Name, f.Value)
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(p.Cluster))
	req.Header.Set(state.HeaderExchange, rt.EgressSecret+".probe")
	return g.Egress.Do(req)
}

// ModelList is a provider's answer to a look at its list of models.
type ModelList struct {
	Body      []byte // nil where it is unchanged
	ETag      string
	Unchanged bool
}

// maxModelList bounds a provider's list of models.
const maxModelList = 16 << 20

// ListModels asks a provider for its list of models, the same way as Probe. etag names the list that is known already, "" if none is.
// Safe for concurrent use.
func (g *Gateway) ListModels(ctx context.Context, id policy.ProviderID, etag string) (ModelList, error) {
	resp, err := g.ping(ctx, id, etag)
	if err != nil {
		return ModelList{}, err
	}
	defer closeBody(resp)
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
