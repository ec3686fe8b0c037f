package settings

import (
	"time"

	"bardo.money/gateway/extproc/epoch"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// IntentRules are the configured rules for intents.
func IntentRules(cfg *config.Config) intent.Rules {
	tiers := map[string]string{}
	for name, t := range cfg.Inference.Tiers {
		tiers[name] = t.Provider
	}
	barred := make(map[policy.Tier][]policy.ProviderID)
	for name, plan := range cfg.Billing.Tiers {
		for _, id := range plan.Exclude {
			barred[policy.Tier(name)] = append(barred[policy.Tier(name)], policy.ProviderID(id))
		}
	}
	return intent.Rules{Tiers: tiers, Barred: barred, Pipeline: cfg.Pipeline.Default, DefaultTier: defaultTier(cfg)}
}

// defaultTier is the privacy tier of requests that require privacy and state no tier.
func defaultTier(cfg *config.Config) policy.PrivacyTier {
	v := cfg.Providers.Venice
	if v == nil {
		return policy.PrivacyUnset
	}
	t, _ := policy.ParsePrivacyTier(v.DefaultPrivacyTier) // validated by the schema
	return t
}

// Epochs are the rules for the epochs of prompt cache keys.
func Epochs(cfg *config.Config) (r epoch.Rules) {
	if v := cfg.Providers.Venice; v != nil && v.Cache != nil {
		r = epoch.Rules{
			On: true, Idle: time.Duration(v.Cache.KernelTTL) * time.Second,
			Dreams: v.Cache.Advances(string(epoch.DreamStart)), Phases: v.Cache.Advances(string(epoch.PhaseTransition)),
		}
	}
	return r
}

// Spread returns whether a provider has several keys or endpoints.
func Spread(cfg *config.Config) func(policy.ProviderID) bool {
	several := map[policy.ProviderID]bool{}
	for _, p := range cfg.Enabled() {
		several[p.ID] = len(p.Keys) > 1 || len(p.Endpoints) > 1
	}
	return func(id policy.ProviderID) bool { return several[id] }
}

// Address is a listen address; "" if it is off.
func Address(a config.Addr) string {
	if a == "off" {
		return ""
	}
	return string(a)
}

// ProviderIDs are the enabled providers, in order.
func ProviderIDs(cfg *config.Config) []policy.ProviderID {
	enabled := cfg.Enabled()
	ids := make([]policy.ProviderID, len(enabled))
	for i, p := range enabled {
		ids[i] = p.ID
	}
	return ids
}
