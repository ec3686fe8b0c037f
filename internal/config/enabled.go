package config

import (
	"cmp"
	"slices"
	"strconv"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// DemoOnly tells whether no real provider is configured, so that the demo provider answers.
func (c *Config) DemoOnly() bool { return len(c.real()) == 0 }

// Enabled lists the enabled providers, first choice first: those in providers.order, then the others in order of
// appearance in the file, then those that only a variable of the environment enabled. It is never empty: with no other,
// the demo provider is enabled.
func (c *Config) Enabled() []Provider {
	out := c.real()
	if len(out) == 0 {
		return []Provider{{Kind: KindDemo, Provider: kind.Provider{ID: Demo, Models: []Model{{ID: string(Demo)}}, Any: true, Free: true}}}
	}
	order := slices.Concat(c.Providers.Order, c.appeared, defaultOrder)
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

// section is the name under which a provider stands in providers.order.
func (p Provider) section() policy.ProviderID {
	if p.Direct {
		return directSection
	}
	return p.ID
}

const directSection policy.ProviderID = "direct"

// real are the enabled providers but the demo.
func (c *Config) real() []Provider {
	var out []Provider
	for _, o := range ordinaries {
		if p := *o.at(&c.Providers); p != nil {
			out = append(out, Provider{
				Kind: o.kind, Format: o.format, Endpoints: []URL{p.BaseURL}, Responses: o.kind == KindOpenAI,
				Provider: kind.Provider{ID: o.id, Vendor: true, Of: o.id, ContextEngineering: true},
			}.keyed(p.APIKey, p.APIKeys))
		}
	}
	out = append(out, c.special()...)
	out = append(out, c.Providers.Direct.enabled()...)
	for _, p := range c.Providers.Custom {
		out = append(out, Provider{
			Kind: KindCustom, Format: p.Format, Endpoints: p.Endpoints,
			Betas: p.Betas, CacheControl: p.CacheControl, Responses: p.Responses,
			NoCompletions: p.Completions != nil && !*p.Completions,
			Provider: kind.Provider{
				ID: p.ID, Private: p.Private, Catalog: p.Catalog, Models: p.Models, Any: len(p.Models) == 0, ContextEngineering: true,
			},
		}.keyed(p.APIKey, p.APIKeys))
	}
	return out
}

// special are the providers that are more than a vendor.
func (c *Config) special() []Provider {
	var out []Provider
	if p := c.Providers.BlockRun; p != nil {
		out = append(out, Provider{
			Kind: KindBlockRun, Format: FormatOpenAI, Endpoints: []URL{p.Endpoint},
			Provider: kind.Provider{ID: KindBlockRun, Catalog: "blockrun", Models: p.Models, Broad: true, ContextEngineering: true},
		}.keyed(p.APIKey, p.APIKeys))
	}
	if p := c.Providers.OpenRouter; p != nil {
		out = append(out, Provider{
			Kind: KindOpenRouter, Format: FormatOpenAI, Endpoints: []URL{p.Endpoint},
			BYOK: p.BYOK, Sort: p.Sort, Fallbacks: p.Fallbacks, Allow: p.Allow, CacheControl: true,
			Provider: kind.Provider{
				ID: KindOpenRouter, Catalog: "openrouter", Models: p.Models, Broad: true, Any: len(p.Models) == 0, ContextEngineering: true,
			},
		}.keyed(p.APIKey, p.APIKeys))
	}
	if p := c.Providers.Venice; p != nil {
		out = append(out, Provider{
			Kind: KindVenice, Format: FormatOpenAI, Endpoints: []URL{p.BaseURL}, Characters: p.Characters,
			Provider: kind.Provider{
				ID: KindVenice, Catalog: "venice", Models: p.Models, Private: true, DIEM: p.DIEMStaked, ContextEngineering: true,
			},
		}.keyed(p.APIKey, p.APIKeys))
	}
	if p := c.Providers.Bankr; p != nil {
		out = append(out, Provider{
			Kind: KindBankr, Format: FormatOpenAI, Endpoints: []URL{p.Endpoint},
			Provider: kind.Provider{
				ID: KindBankr, Models: p.Models, Subsystems: p.Subsystems, ContextEngineering: true,
				Earnings: kind.Earnings{Balance: p.RevenueBalance, Revenue: p.LifetimeRevenue, Cost: p.LifetimeCost},
			},
		}.keyed(p.APIKey, p.APIKeys))
	}
	return out
}

// enabled are the users' own keys: those of one vendor, address and list of models make one provider.
func (d *Direct) enabled() []Provider {
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
		out = append(out, k.enabled(out))
	}
	return out
}

// enabled is the provider of one key. Its name is direct/vendor; of several of one vendor, the later ones have a number.
func (k *DirectKey) enabled(before []Provider) Provider {
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
	if i := slices.IndexFunc(ordinaries, func(o ordinary) bool { return string(o.id) == k.Provider }); i >= 0 {
		p.Kind, p.Format, p.Responses, p.Vendor = ordinaries[i].kind, ordinaries[i].format, ordinaries[i].kind == KindOpenAI, true
	} else {
		p.Any = len(k.Models) == 0
		for _, id := range k.Models {
			p.Models = append(p.Models, Model{ID: id})
		}
		p.Free = true // a model on the operator's own machine
	}
	return p.keyed(k.APIKey, nil)
}

// keyed is p with its keys.
func (p Provider) keyed(first Secret, more []Secret) Provider {
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
