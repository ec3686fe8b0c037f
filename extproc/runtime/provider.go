package runtime

import (
	"fmt"
	"iter"
	"maps"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/attestation"
	"bardo.money/gateway/policy/e2ee"
	"bardo.money/gateway/policy/occasion"
)

// Provider is a configured provider: its adapter, endpoint, keys and who pays.
type Provider struct {
	Adapter  provider.Adapter
	Endpoint provider.Endpoint
	Keys     []provider.Secret // all of its keys, the endpoint's first
	Ring     *keyring.Ring     // of several keys; nil for one
	Cluster  policy.ProviderID // its name in the control plane's state
	Spread   bool              // it has several equal endpoints, among which Envoy chooses
	Free     bool              // the demo provider: callers without a key may use it
	Direct   bool              // a configured key of the user's own: not billed, and layers are skipped unless Engineered
	BYOK     bool              // accepts X-Bardo-Upstream-Key
	// Engineered: the layers run on requests of a direct key, too.
	Engineered bool
	// CountsTokens: the provider's API has a token counting endpoint.
	CountsTokens bool
	// Reasoning is how the provider's kind returns reasoning.
	Reasoning kind.Reasoning
	// Batches is the form of the provider's batch API, "" for none, and BatchPct its price in percent of the usual one.
	Batches  string
	BatchPct int
	// Attestation is the policy for receipts of the provider's enclaves; nil: their answers are not attested.
	Attestation *attestation.Policy
	// Payer pays per call; nil: the provider is not paid per call.
	Payer Payer
	// Seals are the keys of the provider's enclave for encrypting requests, preferred first; nil for none.
	Seals []*e2ee.Key
	// Occasions restrict when agents may use more than text at the provider; nil: no restriction.
	Occasions *occasion.Rules
	// Traced: requests to it carry their trace context, unless they are private.
	Traced bool
}

// Providers are the configured providers. The zero value has none.
type Providers struct {
	byID map[policy.ProviderID]*Provider
}

// ProvidersOf returns the providers of a map, which must not be changed afterwards. A nil map is empty.
func ProvidersOf(all map[policy.ProviderID]*Provider) Providers {
	maps.DeleteFunc(all, func(_ policy.ProviderID, p *Provider) bool { return p == nil })
	return Providers{all}
}

// All returns the providers with their ids, in no order.
func (ps Providers) All() iter.Seq2[policy.ProviderID, *Provider] { return maps.All(ps.byID) }

// Provider returns a configured provider. For an unknown id it returns one that serves nothing, and must not be changed.
func (rt *Config) Provider(id policy.ProviderID) *Provider {
	p, _ := rt.Find(id)
	return p
}

// Find is Provider; ok reports whether the id is configured.
func (rt *Config) Find(id policy.ProviderID) (p *Provider, ok bool) {
	if p, ok = rt.Providers.byID[id]; ok {
		return p, true
	}
	return &unknown, false
}

var unknown = Provider{Adapter: noAdapter{}}

// noAdapter is the adapter of an unknown provider. It has no dialect, so no request is encoded for it.
type noAdapter struct{}

var _ provider.Adapter = noAdapter{}

// Name implements provider.Adapter.
func (noAdapter) Name() string { return "" }

// Dialect implements provider.Adapter.
func (noAdapter) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect { return "" }

// Encode implements provider.Adapter.
func (noAdapter) Encode(_ []byte, _ *chat.Request, to policy.Resolution, _ provider.Endpoint) (*provider.Call, error) {
	return nil, fmt.Errorf("provider %s is not configured", to.Provider)
}

// Ping implements provider.Adapter.
func (noAdapter) Ping(provider.Endpoint) *provider.Call { return &provider.Call{} }

// NewDecoder implements provider.Adapter.
func (noAdapter) NewDecoder(*chat.Request, policy.Resolution, provider.Endpoint, int, header.List) provider.Decoder {
	return noAdapter{}
}

// Decode implements provider.Decoder: it decodes nothing.
func (noAdapter) Decode([]byte, bool) []chat.Event { return nil }
