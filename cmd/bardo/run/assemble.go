package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/classifier"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// maxAnswer bounds an answer that the gateway sends itself, in bytes: Envoy buffers it for a client that does not read.
const maxAnswer = 32 << 20

// assemble builds the data path's runtime from a configuration.
func (g *gateway) assemble(cfg *config.Config) (*runtime.Config, error) {
	phase := g.stake.Listener(cfg)
	cfg = g.stake.Apply(g.wallet.Apply(cfg))
	priced, err := settings.Models(cfg, g.lists)
	if err != nil {
		return nil, err
	}
	services, err := g.services(cfg)
	if err != nil {
		return nil, err
	}
	rt := &runtime.Config{
		Pipeline: pipeline.New(g.parts.Layers(cfg, services)...),
		Dialects: g.parts.Dialects,
		Profiles: g.profiles(cfg),
		Timeouts: runtime.Timeouts{
			FirstToken: cfg.Routing.Timeouts.FirstToken, FirstTokenReasoning: cfg.Routing.Timeouts.FirstTokenReasoning,
			Idle: cfg.Routing.Timeouts.Idle, Total: cfg.Routing.Timeouts.Total, Heartbeat: cfg.Routing.Timeouts.Heartbeat,
			UploadIdle: cfg.Limits.BodyIdle, UploadTotal: cfg.Limits.BodyTotal,
		},
		Keyless: keyless(cfg), Known: origin.Rule{Hosts: []string{origin.Hostname(cfg.Listen.PublicURL.Host)}, Pages: cfg.Listen.CORSOrigins},
		Origins: cfg.Listen.CORSOrigins, MaxRetries: cfg.Routing.MaxRetries, Hedging: settings.Hedging(cfg), MaxBody: cfg.Limits.MaxBodyBytes, MaxBodies: cfg.Limits.MaxInflightBodyBytes,
		MaxAnswer:     maxAnswer,
		ReserveOutput: cfg.Billing.ReserveOutputTokens, EgressSecret: g.egressSecret(),
		Secrets:    g.learnSecrets(cfg),
		Structured: settings.StructuredOutputs(cfg), VerifyRisk: runtime.VerifyRisk(cfg.Inference.Verification.Risk),
		SearchBudget: cfg.Inference.WebSearchBudget,
		Escalation:   runtime.Escalation{On: cfg.Inference.Escalation.Mode == "auto", Floor: cfg.Inference.Escalation.ConfidenceFloor},
	}
	rt.Governor = settings.Governor(cfg)
	rt.DefaultSpread, rt.SpreadPct = cfg.Billing.Spreads()
	rt.Plans = len(cfg.Billing.Tiers) > 0
	rt.Embeddings = g.embeddings(cfg)
	if rt.Classifier, err = g.classifier(cfg); err != nil {
		return nil, err
	}
	if err := g.assembleProviders(cfg, priced, rt); err != nil {
		return nil, err
	}
	for _, c := range settings.HookClusters(cfg) {
		rt.Hooks = append(rt.Hooks, c.ID)
	}
	rt.MCP, rt.MCPCalls, rt.MCPAuth = settings.MCPServers(&cfg.MCP), cfg.MCP.MaxConcurrent, settings.MCPAuthorization(cfg)
	rt.Firewall = firewall.New(settings.FirewallRules(&cfg.Pipeline.Firewall)).InShadow(cfg.Pipeline.Firewall.Shadow)
	rt.Epochs, rt.Phase = settings.Epochs(cfg), phase
	rt.SetCognition(time.Duration(cfg.Telemetry.VeniceMockRateMS) * time.Millisecond)
	rt.Resolver = settings.Resolver(g.parts.Adapters, priced, cfg)
	rt.Intents = settings.IntentRules(cfg)
	rt.Free, rt.Cheaper = freePlans(rt), settings.Cheaper(cfg)
	rt.Wallet = wallet.Of(cfg)
	if p := cfg.Providers.Venice; p != nil {
		rt.Stake = p.DIEMDaily
	}
	g.models = priced
	return rt, nil
}

// assembleProviders adds the providers to the runtime.
func (g *gateway) assembleProviders(cfg *config.Config, priced *catalog.Catalog, rt *runtime.Config) error {
	all := map[policy.ProviderID]*runtime.Provider{}
	for _, p := range cfg.Enabled() {
		a, ok := settings.Adapter(g.parts.Adapters, p.Kind)
		if !ok {
			return fmt.Errorf("provider %s: no adapter for kind %q", p.ID, p.Kind)
		}
		if p.BYOK {
			rt.TakesKeys = append(rt.TakesKeys, p.ID)
		}
		one := &runtime.Provider{
			Adapter: a, Endpoint: settings.Endpoint(p), Keys: p.Keys, Ring: attempt.NewRing(p.Keys), Cluster: settings.ClusterID(cfg, p), Spread: len(p.Endpoints) > 1,
			Free: p.Free, Direct: p.Direct, Engineered: p.ContextEngineering, BYOK: p.BYOK, CountsTokens: p.CountsTokens,
			Occasions: settings.Occasions(cfg, p.Kind), Traced: slices.Contains(cfg.Telemetry.OTLPPropagate, p.ID),
			Reasoning: a.Kind().Reasoning, Payer: g.wallets.Payer(p.ID),
		}
		if err := setAttestation(one, &p); err != nil {
			return err
		}
		setBatches(one, a.Kind().Batches, priced.BatchPct(policy.ProviderID(p.Kind)))
		all[p.ID] = one
	}
	rt.Providers = runtime.ProvidersOf(all)
	return nil
}

// embeddings says what computes embeddings if no provider's model is named.
func (g *gateway) embeddings(cfg *config.Config) (e runtime.Embeddings) {
	switch cfg.Inference.Embeddings.Provider {
	case "local":
		e.Local = g.vectors
	case "venice":
		e.Remote = config.KindVenice + "/" + cfg.Inference.Embeddings.VeniceModel
	}
	return e
}

// setBatches sets a provider's batch API, if the operator pays there and the catalog knows its discount.
func setBatches(p *runtime.Provider, form string, pct int) {
	if form != "" && pct > 0 && !p.Direct {
		p.Batches, p.BatchPct = form, pct
	}
}

// classifier returns the classifier of prompts; nil if the configuration has it off.
func (m *localModels) classifier(cfg *config.Config) (*classifier.Classifier, error) {
	if cfg.Routing.Classifier != "on" {
		return nil, nil //nolint:nilnil // switched off
	}
	used := m.usedModels()
	if cfg.Models.Injection == models.Off {
		return classifier.New(used.Embedder(), nil, cfg.Pipeline.Injection.Threshold)
	}
	return classifier.New(used.Embedder(), used.Classifier(), cfg.Pipeline.Injection.Threshold)
}

// services returns what the layers of a configuration need.
func (g *gateway) services(cfg *config.Config) (*Services, error) {
	facts, err := settings.Facts(cfg)
	if err != nil {
		return nil, err
	}
	m := g.usedModels()
	s := &Services{
		Answers: g.answers.Answers, Questions: g.answers.Questions, Meaning: g.answers.Meaning,
		Secret: g.layersSecret(cfg), Embedder: m.Embedder(), Classifier: m.Classifier(), Recognizer: m.Recognizer(), Facts: facts, Metrics: g.metrics, Events: &g.events, SecondOpinion: g.secondOpinion(), Log: g.log, Prompts: g.prompts,
		Memory: g.memory, Egress: cmp.Or(g.listener(), g.egress()), EgressSecret: g.egressSecret,
	}
	if kept := g.answers.Vectors; kept != nil { // avoids an interface that holds a nil pointer
		s.Vectors = kept
	}
	if shared := g.answers.Shared; shared != nil {
		s.Conversations = shared
	}
	return s, nil
}

// freePlans are the plans whose keys can reach a free model.
func freePlans(rt *runtime.Config) map[policy.Tier]bool {
	out := make(map[policy.Tier]bool)
	for _, plan := range []policy.Tier{"", policy.TierFree, policy.TierPro, policy.TierGolem} {
		out[plan] = rt.Resolver.HasFree(rt.Intents.Barred[plan])
	}
	return out
}

func keyless(cfg *config.Config) runtime.Keyless {
	switch {
	case cfg.Auth.Anonymous:
		return runtime.KeylessAnyone
	case cfg.DemoOnly():
		return runtime.KeylessDemo
	}
	return runtime.KeylessNobody
}
