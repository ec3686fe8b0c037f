package resolve_test

import (
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// traits are kinds of providers with each trait that choosing knows of: a marketplace, a gateway that a wallet pays for, a private one, vendors.
var traits = map[string]kind.Traits{
	"blockrun":   {Lacks: policy.VendorFeatures(), Rank: -1},
	"openrouter": {Lacks: policy.VendorFeatures(), Rank: 1, ComparedByCost: true, ReadsDocuments: true, Marketplace: true},
	"bankr":      {Lacks: policy.VendorFeatures(), Gives: []policy.Feature{policy.SelfFunding, policy.CrossVerify}, First: kind.ForWallet, Rank: 2},
	"venice":     {Lacks: append(policy.VendorFeatures(), policy.Citations, policy.Compaction), First: kind.ForPrivacy, Rank: 3},
	"openai":     {OwnKey: []policy.Feature{policy.BatchAPI, policy.ResponsesAPI}},
	"anthropic":  {OwnKey: []policy.Feature{policy.BatchAPI}},
	"google":     {OwnKey: []policy.Feature{policy.ExplicitCaching}},
}

// enabled are the providers of a configuration with the traits of their kinds.
func enabled(cfg *config.Config) []kind.Provider {
	var out []kind.Provider
	for _, p := range cfg.Enabled() {
		p.Traits = traits[p.Kind]
		out = append(out, p.Provider)
	}
	return out
}

// resolverOf chooses among the providers of a configuration, by its rules.
func resolverOf(c *catalog.Catalog, cfg *config.Config) *resolve.Resolver {
	available := map[policy.ProviderID]resolve.Available{}
	for _, id := range config.Known() {
		available[id] = resolve.Available{EnabledBy: config.EnabledBy(id), Marketplace: traits[string(id)].Marketplace}
	}
	return resolve.New(c, enabled(cfg)).Knowing(available).Under(resolve.Rules{
		Strategy: resolve.Strategy(cfg.Routing.Strategy), Mode: resolve.Mode(cfg.Inference.ProviderMode), Dreams: cfg.Inference.DreamProvider,
		Exhausted: resolve.Exhausted(cfg.Inference.OnPrivacyExhausted),
	})
}
