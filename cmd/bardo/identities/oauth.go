package identities

import (
	"context"
	"reflect"
	"sync"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/toolaccess"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/oauth"
)

// MCPTokens verify access tokens of MCP clients by the configuration in force.
type MCPTokens struct {
	o Options

	mu       sync.Mutex
	of       *config.MCPOAuth // of verifier; nil: there is none yet
	verifier *oauth.Verifier
}

var _ toolaccess.Tokens = (*MCPTokens)(nil)

// NewMCPTokens returns the verifier. Only Config, Ledger, Egress and Secret are used.
func NewMCPTokens(o Options) *MCPTokens { return &MCPTokens{o: o} }

// Verify implements toolaccess.Tokens.
func (t *MCPTokens) Verify(ctx context.Context, r auth.Request, resources ...string) (p policy.Principal, ok bool, err error) {
	v := t.current()
	if v == nil {
		return p, false, nil
	}
	return v.Verify(ctx, r, resources...)
}

// current returns the verifier of the configuration in force; nil if none is configured. A change of another part keeps the fetched keys.
func (t *MCPTokens) current() *oauth.Verifier {
	c := t.o.Config().MCP.OAuth
	if c == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c != t.of && !reflect.DeepEqual(c, t.of) {
		t.verifier = t.o.verifierOf(c)
	}
	t.of = c
	return t.verifier
}

func (o *Options) verifierOf(c *config.MCPOAuth) *oauth.Verifier {
	callers := make([]oauth.Caller, len(c.Callers))
	for i, one := range c.Callers {
		callers[i] = oauth.Caller{Claim: one.Claim, Values: one.Values, Key: policy.Account(one.Key)}
	}
	return oauth.New(oauth.Options{
		Issuer: c.Issuer, Scopes: c.Scopes, Callers: callers, Refresh: c.Refresh, Now: time.Now, Principal: accounts{o.Ledger}.Principal,
		Fetch: func(ctx context.Context) ([]byte, error) { return o.fetch(ctx, settings.MCPKeysCluster(c), ".oauth") },
	})
}
