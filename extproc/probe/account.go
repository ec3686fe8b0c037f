package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Document reads a document of the operator's account from a provider, in the same way as Probe. path is relative to its base URL; a document longer
// than maxBytes is an error. If Envoy is not running yet, or does not know the provider, the error is an ErrNotAsked.
func (c *Client) Document(ctx context.Context, id policy.ProviderID, path string, maxBytes int64) ([]byte, error) {
	p, ok := c.Config.Find(id)
	if !ok {
		return nil, fmt.Errorf("%w: provider %s is not configured", ErrNotAsked, id)
	}
	call := p.Adapter.Ping(p.Endpoint)
	call.Path = p.Endpoint.BasePath + path
	resp, err := c.get(ctx, p, p.Endpoint, call, "") //nolint:bodyclose // CloseBody does it
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAsked, err)
	}
	defer upstream.CloseBody(resp)
	if why := resp.Header.Get(state.HeaderFailure); why != "" {
		return nil, unanswered(upstream.Local(id, resp.StatusCode, why))
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("provider %s answered %d", id, resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("provider %s broke off its answer: %w", id, err)
	case int64(len(b)) > maxBytes:
		return nil, fmt.Errorf("provider %s answered with more than %d bytes", id, maxBytes)
	}
	return b, nil
}
