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
	// Batches is the form of the provider's batch API, and BatchPct what tokens cost there, in percent of their price; "" for none.
	Batches  string
	BatchPct int
	// Attestation is which receipts of the provider's enclaves are trusted; nil: their answers are not attested.
	Attestation *attestation.Policy
	// Payer pays for single calls; nil: they are not paid for one by one.
	Payer Payer
	// Seals are the keys of the provider's enclave that requests are encrypted with, the first one first; nil: it has none.
	Seals []*e2ee.Key
	// Occasions are those on which agents have more than text of the provider; nil: any.
	Occasions *occasion.Rules
	// Traced: requests carry their trace context there, if they are not private.
	Traced bool
}

// Providers are the configured providers. The zero value has none.
type Providers struct {
	byID map[policy.ProviderID]*Provider
}

// ProvidersOf returns the providers of a map, which is not to be changed any more. A nil one is none.
func ProvidersOf(all map[policy.ProviderID]*Provider) Providers {
	maps.DeleteFunc(all, func(_ policy.ProviderID, p *Provider) bool { return p == nil })
	return Providers{all}
}

// All are the providers with their ids, in no order.
func (ps Providers) All() iter.Seq2[policy.ProviderID, *Provider] { return maps.All(ps.byID) }

// Provider is a configured provider. Where there is none of that id, it is one that serves nothing, has nothing, and is not to be changed.
func (rt *Config) Provider(id policy.ProviderID) *Provider {
	p, _ := rt.Find(id)
	return p
}

// Find is Provider; ok reports whether there is one of that id.
func (rt *Config) Find(id policy.ProviderID) (p *Provider, ok bool) {
	if p, ok = rt.Providers.byID[id]; ok {
		return p, true
	}
	return &unknown, false
}

var unknown = Provider{Adapter: nobody{}}

// nobody is the adapter of a provider that is not configured. Its dialect is none, so that no request is written for it.
type nobody struct{}

var _ provider.Adapter = nobody{}

// Name implements provider.Adapter.
func (nobody) Name() string { return "" }

// Dialect implements provider.Adapter.
func (nobody) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect { return "" }

// Encode implements provider.Adapter.
func (nobody) Encode(_ []byte, _ *chat.Request, to policy.Resolution, _ provider.Endpoint) (*provider.Call, error) {
	return nil, fmt.Errorf("provider %s is not configured", to.Provider)
}

// Ping implements provider.Adapter.
func (nobody) Ping(provider.Endpoint) *provider.Call { return &provider.Call{} }

// NewDecoder implements provider.Adapter.
func (nobody) NewDecoder(*chat.Request, policy.Resolution, provider.Endpoint, int, header.List) provider.Decoder {
	return nobody{}
}

// Decode implements provider.Decoder: nothing is read.
func (nobody) Decode([]byte, bool) []chat.Event { return nil }
