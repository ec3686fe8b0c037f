package identities

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/oauth"
)

// MCPTokens returns the verifier of access tokens of MCP clients; nil if none is configured. Only Config, Ledger, Egress and Secret are used.
func MCPTokens(o Options) *oauth.Verifier {
	c := o.Config().MCP.OAuth
	if c == nil {
		return nil
	}
	callers := make([]oauth.Caller, len(c.Callers))
	for i, one := range c.Callers {
		callers[i] = oauth.Caller{Claim: one.Claim, Values: one.Values, Key: policy.Account(one.Key)}
	}
	return oauth.New(oauth.Options{
		Issuer: c.Issuer, Scopes: c.Scopes, Callers: callers, Refresh: c.Refresh, Now: time.Now, Principal: accounts{o.Ledger}.Principal,
		Fetch: func(ctx context.Context) ([]byte, error) {
			now := o.Config().MCP.OAuth
			if now == nil {
				return nil, errors.New("mcp.oauth is not configured any more")
			}
			return o.fetch(ctx, settings.MCPKeysCluster(now), ".oauth")
		},
	})
}
