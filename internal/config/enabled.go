package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// DemoOnly reports whether no real provider is configured, so that the demo provider answers.
func (c *Config) DemoOnly() bool { return len(c.withoutDemo()) == 0 }

// Enabled lists the enabled providers in failover order: those in providers.order, then the others in order of appearance in the file, then those
// that only an environment variable enabled. It is never empty: without any other, the demo provider is enabled.
func (c *Config) Enabled() []Provider {
	out := c.withoutDemo()
	if len(out) == 0 {
		return []Provider{{Kind: KindDemo, Provider: kind.Provider{ID: Demo, Models: []Model{{ID: string(Demo)}}, Any: true, Free: true}}}
	}
	for i := range out {
		out[i] = out[i].sealedOnlyWithKeys()
	}
	order := slices.Concat(c.Providers.Order, c.appeared, c.kinds.names())
	slices.SortStableFunc(out, func(a, b Provider) int {
		return cmp.Compare(slices.Index(order, a.section()), slices.Index(order, b.section()))
	})
	return out
}

// Provider finds an enabled provider by its name.
func (c *Config) Provider(id policy.ProviderID) (p Provider, ok bool) {
	all := c.Enabled()
	if i := slices.IndexFunc(all, func(p Provider) bool { return p.ID == id }); i >= 0 {
		return all[i], true
	}
	return Provider{}, false
}

// section returns the provider's name in providers.order.
func (p Provider) section() policy.ProviderID {
	if p.Direct {
		return directSection
	}
	return p.ID
}

// ProxyOf returns the proxy through which a provider is reached; the zero address if it is reached directly.
func (c *Config) ProxyOf(p *Provider) netip.AddrPort {
	direct := slices.ContainsFunc(p.Endpoints, func(u URL) bool { return !u.TLS() })
	if c.Providers.Proxy == (URL{}) || direct || slices.Contains(c.Providers.NoProxy, p.section()) {
		return netip.AddrPort{}
	}
	at, _ := netip.ParseAddrPort(c.Providers.Proxy.Host) // checked
	return at
}

const directSection policy.ProviderID = "direct"

// withoutDemo returns the enabled providers except the demo.
func (c *Config) withoutDemo() []Provider {
	var out []Provider
	for _, k := range c.kinds.hosts() {
		h := c.Providers.Hosts[policy.ProviderID(k.Name)]
		if h == nil {
			continue
		}
		p := base(k, h.BaseURL)
		p.BYOK = h.BYOK
		p.APIVersion, p.Region = cmp.Or(h.APIVersion, k.APIVersion), h.Region
		if p.Models = h.Models; k.Section == kind.VendorSection {
			p.Vendor, p.Of = true, p.ID
		}
		p.AnyNamed = k.AnyModel
		out = append(out, p.withKeys(h.key(), h.APIKeys))
	}
	out = append(out, c.special()...)
	out = append(out, c.Providers.Direct.enabled(c.kinds)...)
	for _, p := range c.Providers.Custom {
		custom := Provider{
			Kind: KindCustom, Format: p.Format, Endpoints: p.Endpoints,
			E2EEKeys: p.E2EEKeys, Betas: p.Betas, CacheControl: p.CacheControl, Responses: p.Responses,
			NoCompletions: p.Completions != nil && !*p.Completions,
			Provider: kind.Provider{
				ID: p.ID, Private: p.Private, Catalog: p.Catalog, Models: p.Models, Any: len(p.Models) == 0, ContextEngineering: true,
			},
		}
		if p.Format == FormatBardo {
			custom = custom.ofKind(c.kinds.find(FormatBardo))
		}
		out = append(out, custom.withKeys(p.APIKey, p.APIKeys))
	}
	return out
}

// ofKind returns a custom provider with what its kind supports, and the kind's list of models unless another one is configured.
func (p Provider) ofKind(k kind.Kind) Provider {
	p.Kind, p.CacheControl, p.Responses, p.CountsTokens = k.Name, k.CacheControl, k.Responses, k.CountsTokens
	p.Catalog, p.Traits = cmp.Or(p.Catalog, k.List), k.Traits
	return p
}

// base returns a provider with the settings of its kind.
func base(k kind.Kind, at URL) Provider {
	return Provider{
		Kind: k.Name, Format: k.Format, Endpoints: []URL{at}, CacheControl: k.CacheControl, Responses: k.Responses, CountsTokens: k.CountsTokens,
		variables: k.Variables, realtime: slices.Contains(k.Endpoints, kind.Realtime),
		Provider: kind.Provider{
			ID: policy.ProviderID(k.Name), Traits: k.Traits, Catalog: k.List, Private: k.Private, Broad: k.Broad, ContextEngineering: true,
		},
	}
}

// special returns the providers whose sections have keys of their own.
func (c *Config) special() []Provider {
	var out []Provider
	if s := c.Providers.BlockRun; s != nil {
		p := base(c.kinds.find(KindBlockRun), s.Endpoint)
		p.Models = s.Models
		out = append(out, p.withKeys(s.APIKey, s.APIKeys))
	}
	if s := c.Providers.OpenRouter; s != nil {
		p := base(c.kinds.find(KindOpenRouter), s.Endpoint)
		p.BYOK, p.Sort, p.Fallbacks, p.Allow = s.BYOK, s.Sort, s.Fallbacks, s.Allow
		p.Models, p.Any = s.Models, len(s.Models) == 0
		out = append(out, p.withKeys(s.APIKey, s.APIKeys))
	}
	if s := c.Providers.Venice; s != nil {
		p := base(c.kinds.find(KindVenice), s.BaseURL)
		p.Attestation, p.E2EEKeys = s.attestation(), s.E2EEKeys
		p.Characters, p.Models, p.DIEM = s.Characters, s.Models, s.DIEMStaked
		out = append(out, p.withKeys(s.APIKey, s.APIKeys))
	}
	if s := c.Providers.Bankr; s != nil {
		p := base(c.kinds.find(KindBankr), s.Endpoint)
		p.Models, p.Subsystems = s.Models, s.Subsystems
		p.Earnings = kind.Earnings{Balance: s.RevenueBalance, Revenue: s.LifetimeRevenue, Cost: s.LifetimeCost}
		out = append(out, p.withKeys(s.APIKey, s.APIKeys))
	}
	return out
}

// enabled returns the users' own keys: those of one vendor, address and list of models form one provider.
func (d *Direct) enabled(kinds kindsOf) []Provider {
	if d == nil {
		return nil
	}
	var out []Provider
	for _, k := range d.Keys {
		i := slices.IndexFunc(out, func(p Provider) bool {
			return p.Of == policy.ProviderID(k.Provider) && p.Endpoints[0] == k.BaseURL && slices.Equal(p.Only, k.Models) &&
				p.ContextEngineering == k.ContextEngineering
		})
		if i >= 0 {
			out[i].Keys = append(out[i].Keys, k.APIKey)
			continue
		}
		out = append(out, k.enabled(out, kinds))
	}
	return out
}

// enabled returns the provider of one key. Its name is direct/vendor; further ones of the same vendor have a number.
func (k *DirectKey) enabled(before []Provider, kinds kindsOf) Provider {
	p := Provider{
		Kind: KindCustom, Format: FormatOpenAI, Endpoints: []URL{k.BaseURL},
		Provider: kind.Provider{
			ID: directSection + "/" + policy.ProviderID(k.Provider), Of: policy.ProviderID(k.Provider), Direct: true, Only: k.Models,
			ContextEngineering: k.ContextEngineering,
		},
	}
	same := 1
	for _, q := range before {
		if q.Of == p.Of {
			same++
		}
	}
	if same > 1 {
		p.ID += policy.ProviderID("-" + strconv.Itoa(same))
	}
	if of := kinds.find(k.Provider); of.Section == kind.VendorSection {
		p.Kind, p.Format, p.Responses, p.CountsTokens, p.Vendor = of.Name, of.Format, of.Responses, of.CountsTokens, true
		p.Traits, p.variables = of.Traits, of.Variables
	} else {
		p.Any = len(k.Models) == 0
		for _, id := range k.Models {
			p.Models = append(p.Models, Model{ID: id})
		}
		p.Free = true // a model on the operator's own machine
	}
	return p.withKeys(k.APIKey, nil)
}

// withKeys returns p with its keys.
func (p Provider) withKeys(first Secret, more []Secret) Provider {
	p.Key = first
	for _, k := range append([]Secret{first}, more...) {
		if k.IsSet() {
			p.Keys = append(p.Keys, k)
		}
	}
	if !p.Key.IsSet() && len(p.Keys) > 0 {
		p.Key = p.Keys[0]
	}
	return p
}
