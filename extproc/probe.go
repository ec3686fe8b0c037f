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
	rt := g.runtime.Load()
	p, ok := rt.Providers[id]
	if !ok {
		return fmt.Errorf("provider %s is not configured", id)
	}
	call := p.Adapter.Ping(p.Endpoint)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://egress"+call.Path, http.NoBody)
	if err != nil {
		return err
	}
	req.Host = p.Endpoint.Authority
	for _, f := range call.Header {
		req.Header.Set(f.Name, f.Value)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(p.Cluster))
	req.Header.Set(state.HeaderExchange, rt.EgressSecret+".probe")
	resp, err := g.Egress.Do(req)
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
