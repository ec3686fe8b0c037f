package settings

import (
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// Adapter returns the adapter of a kind of provider.
func Adapter(all []provider.Described, name string) (provider.Described, bool) {
	for _, a := range all {
		if a.Name() == name {
			return a, true
		}
	}
	return nil, false
}

// Resolver resolves requests among the configured providers, by the configured rules. adapters are those of the program.
func Resolver(adapters []provider.Described, models *catalog.Catalog, cfg *config.Config) *resolve.Resolver {
	var enabled []kind.Provider
	for _, p := range cfg.Enabled() {
		enabled = append(enabled, p.Provider)
	}
	available := map[policy.ProviderID]resolve.Available{}
	for _, id := range cfg.Known() {
		one := resolve.Available{EnabledBy: cfg.EnabledBy(id)}
		if a, ok := Adapter(adapters, string(id)); ok {
			one.Marketplace = a.Kind().Traits.Marketplace
		}
		available[id] = one
	}
	return resolve.New(models, enabled).Knowing(available).WithRules(resolve.Rules{
		Strategy: resolve.Strategy(cfg.Routing.Strategy), Mode: resolve.Mode(cfg.Inference.ProviderMode), Dreams: cfg.Inference.DreamProvider,
		Exhausted: resolve.Exhausted(cfg.Inference.OnPrivacyExhausted), LowCredit: cfg.Providers.Venice.LowCredit(),
	})
}
