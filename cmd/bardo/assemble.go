package main

import (
	"fmt"
	"os"
	"sync"

	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
)

// maxAnswer bounds a driven answer, which Envoy holds for a client that does not read.
const maxAnswer = 32 << 20

// assemble makes the data path's runtime of a configuration.
func (g *gateway) assemble(cfg *config.Config) (*extproc.Runtime, error) {
	models, err := knownModels(cfg, g.lists)
	if err != nil {
		return nil, err
	}
	rt := &extproc.Runtime{
		Providers: map[policy.ProviderID]extproc.Provider{},
		Pipeline:  pipeline.New(layers(cfg, g.answers, g.warm)...),
		Dialects:  dialects(),
		Profiles:  g.profiles(cfg),
		Timeouts: extproc.Timeouts{
			FirstToken: cfg.Routing.Timeouts.FirstToken, FirstTokenReasoning: cfg.Routing.Timeouts.FirstTokenReasoning,
			Idle: cfg.Routing.Timeouts.Idle, Total: cfg.Routing.Timeouts.Total, Heartbeat: cfg.Routing.Timeouts.Heartbeat,
			UploadIdle: cfg.Limits.BodyIdle, UploadTotal: cfg.Limits.BodyTotal,
		},
		Keyless: keyless(cfg), Known: origin.Rule{Hosts: []string{origin.Hostname(cfg.Listen.PublicURL.Host)}, Pages: cfg.Listen.CORSOrigins}, Origins: cfg.Listen.CORSOrigins, MaxRetries: cfg.Routing.MaxRetries, MaxBody: cfg.Limits.MaxBodyBytes, MaxBodies: cfg.Limits.MaxInflightBodyBytes, MaxAnswer: maxAnswer,
		ReserveOutput: cfg.Billing.ReserveOutputTokens, EgressSecret: g.egressSecret(),
		Secrets:    g.learnSecrets(cfg),
		Structured: structuredOutputs(cfg), VerifyRisk: extproc.VerifyRisk(cfg.Inference.Verification.Risk),
		SearchBudget: cfg.Inference.WebSearchBudget,
		Escalation:   extproc.Escalation{On: cfg.Inference.Escalation.Mode == "auto", Floor: cfg.Inference.Escalation.ConfidenceFloor},
	}
	rt.DefaultSpread, rt.SpreadPct = cfg.Billing.Spreads()
	for _, p := range cfg.Enabled() {
		a, ok := adapterOf(p.Kind)
		if !ok {
			return nil, fmt.Errorf("provider %s: no adapter for kind %q", p.ID, p.Kind)
		}
		rt.TakesKeys = rt.TakesKeys || p.BYOK
		rt.Providers[p.ID] = extproc.Provider{
			Adapter: a, Endpoint: endpointOf(p), Keys: p.Keys, Ring: extproc.NewRing(p.Keys), Cluster: clusterID(p), Free: p.Free, Direct: p.Direct, Engineered: p.ContextEngineering, BYOK: p.BYOK, CountsTokens: p.Kind == config.KindAnthropic || p.Kind == config.KindOpenAI && p.Responses,
		}
	}
	rt.Resolver = resolver(models, cfg)
	rt.Intents = intentRules(cfg)
	rt.Free = freePlans(rt)
	rt.Wallet = wallet(cfg)
	if p := cfg.Providers.Venice; p != nil {
		rt.Stake = p.DIEMDaily
	}
	g.models = models
	return rt, nil
}

// adapterOf is the adapter of a kind of provider.
func adapterOf(name string) (provider.Described, bool) {
	for _, a := range adapters() {
		if a.Name() == name {
			return a, true
		}
	}
	return nil, false
}

// resolver chooses among the providers of a configuration, by its rules.
func resolver(models *catalog.Catalog, cfg *config.Config) *resolve.Resolver {
	var enabled []kind.Provider
	for _, p := range cfg.Enabled() {
		if a, ok := adapterOf(p.Kind); ok {
			p.Traits = a.Kind().Traits
		}
		enabled = append(enabled, p.Provider)
	}
	available := map[policy.ProviderID]resolve.Available{}
	for _, id := range config.Known() {
		one := resolve.Available{EnabledBy: config.EnabledBy(id)}
		if a, ok := adapterOf(string(id)); ok {
			one.Marketplace = a.Kind().Traits.Marketplace
		}
		available[id] = one
	}
	return resolve.New(models, enabled).Knowing(available).Under(resolve.Rules{
		Strategy: resolve.Strategy(cfg.Routing.Strategy), Mode: resolve.Mode(cfg.Inference.ProviderMode), Dreams: cfg.Inference.DreamProvider,
		Exhausted: resolve.Exhausted(cfg.Inference.OnPrivacyExhausted),
	})
}

// structuredOutputs are the rules of answers in a form.
func structuredOutputs(cfg *config.Config) extproc.Structured {
	s := &cfg.Inference.StructuredOutputs
	return extproc.Structured{Enabled: s.Enabled, PreferTool: !s.PreferSchemaEnforcement, Validate: s.Validation, Retries: s.Retries()}
}

// endpointOf says where a provider is, for its adapter. Equal endpoints share the first one's path and host name.
func endpointOf(p config.Provider) provider.Endpoint {
	e := provider.Endpoint{
		Provider: p.ID, Key: p.Key, Authority: string(p.ID), Dialect: chat.Dialect(p.Format),
		Betas: p.Betas, CacheControl: p.CacheControl, Characters: p.Characters, Fallbacks: p.Fallbacks, Allow: p.Allow, Responses: p.Responses, NoCompletions: p.NoCompletions,
	}
	if p.Sort != "" { // one of three words
		e.Preferences = []byte(`{"sort":"` + p.Sort + `"}`)
	}
	if len(p.Endpoints) > 0 {
		e.Authority, e.BasePath = p.Endpoints[0].Host, p.Endpoints[0].Path
	}
	return e
}

// intentRules are what the configuration says about every intent.
func intentRules(cfg *config.Config) intent.Rules {
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
	return intent.Rules{Tiers: tiers, Barred: barred, Pipeline: cfg.Pipeline.Default}
}

// wallet is what the wallet that pays for inference earned and spent, by the configuration.
func wallet(cfg *config.Config) budget.Wallet {
	if p := cfg.Providers.Bankr; p != nil {
		return budget.Wallet{Revenue: p.LifetimeRevenue, Cost: p.LifetimeCost}
	}
	return budget.Wallet{}
}

// freePlans are the plans whose keys can reach a model that costs them nothing.
func freePlans(rt *extproc.Runtime) map[policy.Tier]bool {
	out := make(map[policy.Tier]bool)
	for _, plan := range []policy.Tier{"", policy.TierFree, policy.TierPro, policy.TierGolem} {
		out[plan] = rt.Resolver.HasFree(rt.Intents.Barred[plan])
	}
	return out
}

// spread tells which providers have several keys or endpoints.
func spread(cfg *config.Config) func(policy.ProviderID) bool {
	several := map[policy.ProviderID]bool{}
	for _, p := range cfg.Enabled() {
		several[p.ID] = len(p.Keys) > 1 || len(p.Endpoints) > 1
	}
	return func(id policy.ProviderID) bool { return several[id] }
}

func keyless(cfg *config.Config) extproc.Keyless {
	switch {
	case cfg.Auth.Anonymous:
		return extproc.KeylessAnyone
	case cfg.DemoOnly():
		return extproc.KeylessDemo
	}
	return extproc.KeylessNobody
}

// loadCatalog is the embedded catalog, with the operator's file over it.
func loadCatalog(cfg *config.Config) (*catalog.Catalog, error) {
	files := []modelfile.File{embeddedModels()}
	if path := cfg.Models.Catalog; path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("models.catalog: %w", err)
		}
		file, problems := config.ParseModels(path, b)
		if config.Failed(problems) {
			return nil, fmt.Errorf("models.catalog: %w", problems[0])
		}
		files = append(files, file)
	}
	return catalog.New(files...), nil
}

// embeddedModels is the file of models that every gateway knows. A test of the catalog shows that it is read without problems.
var embeddedModels = sync.OnceValue(func() modelfile.File {
	file, _ := config.ParseModels(catalog.EmbeddedFile())
	return file
})

func quotaRules(cfg *config.Config) quota.Rules {
	general, prepaid := cfg.Limits.Rates()
	return quota.Rules{
		Default:       policy.Limits{RPM: general, TokensPerHour: cfg.Limits.TokensPerHour},
		PrepaidRPM:    prepaid,
		MaxConcurrent: cfg.Limits.MaxConcurrent,
		BillOverage:   cfg.Limits.Overage == "bill",
	}
}
