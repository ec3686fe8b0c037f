package resolve_test

import (
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// kinds are kinds of providers with each trait that choosing knows of: a marketplace, a gateway that a wallet pays for, a private one, vendors.
var kinds = []kind.Kind{
	{
		Name: "blockrun", Section: kind.OwnSection, List: "blockrun", Broad: true, BaseURL: "https://blockrun.test/v1",
		Traits: kind.Traits{Lacks: policy.VendorFeatures(), Rank: -1},
	},
	vendor("anthropic", []string{"ANTHROPIC_API_KEY"}, policy.BatchAPI),
	vendor("openai", []string{"OPENAI_API_KEY"}, policy.BatchAPI, policy.ResponsesAPI),
	vendor("google", []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}, policy.ExplicitCaching),
	{
		Name: "openrouter", Section: kind.OwnSection, List: "openrouter", Broad: true, BaseURL: "https://openrouter.test/v1", Variables: []string{"OPENROUTER_API_KEY"},
		Traits: kind.Traits{Lacks: policy.VendorFeatures(), Rank: 1, ComparedByCost: true, ReadsDocuments: true, Marketplace: true},
	},
	{
		Name: "venice", Section: kind.OwnSection, List: "venice", Private: true, BaseURL: "https://venice.test/v1", Variables: []string{"VENICE_API_KEY"},
		Traits: kind.Traits{Lacks: append(policy.VendorFeatures(), policy.Citations, policy.Compaction), First: kind.ForPrivacy, Rank: 3},
	},
	{
		Name: "bankr", Section: kind.OwnSection, BaseURL: "https://bankr.test/v1", Variables: []string{"BANKR_API_KEY"},
		Traits: kind.Traits{
			Lacks: policy.VendorFeatures(), Gives: []policy.Feature{policy.SelfFunding, policy.CrossVerify}, First: kind.ForWallet, Rank: 2,
		},
	},
	vendor("deepseek", []string{"DEEPSEEK_API_KEY"}),
	vendor("qwen", []string{"DASHSCOPE_API_KEY", "QWEN_API_KEY"}),
}

func vendor(name string, variables []string, onOwnKey ...policy.Feature) kind.Kind {
	return kind.Kind{
		Name: name, Section: kind.VendorSection, BaseURL: "https://" + name + ".test/v1", Variables: variables, Traits: kind.Traits{OwnKey: onOwnKey},
	}
}

// enabled are the providers of a configuration.
func enabled(cfg *config.Config) []kind.Provider {
	var out []kind.Provider
	for _, p := range cfg.Enabled() {
		out = append(out, p.Provider)
	}
	return out
}

// resolverOf chooses among the providers of a configuration, by its rules.
func resolverOf(c *catalog.Catalog, cfg *config.Config) *resolve.Resolver {
	available := map[policy.ProviderID]resolve.Available{}
	for _, id := range cfg.Known() {
		available[id] = resolve.Available{EnabledBy: cfg.EnabledBy(id), Marketplace: id == "openrouter"}
	}
	return resolve.New(c, enabled(cfg)).Knowing(available).WithRules(resolve.Rules{
		Strategy: resolve.Strategy(cfg.Routing.Strategy), Mode: resolve.Mode(cfg.Inference.ProviderMode), Dreams: cfg.Inference.DreamProvider,
		Exhausted: resolve.Exhausted(cfg.Inference.OnPrivacyExhausted),
	})
}
