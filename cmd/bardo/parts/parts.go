// Package parts lists every part of the gateway. The program and libbardo.so share this list.
package parts

import (
	"bardo.money/gateway/cmd/bardo/route"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/affinity"
	"bardo.money/gateway/extproc/layers/align"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/layers/defi"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/layers/guardrail"
	"bardo.money/gateway/extproc/layers/hashcache"
	"bardo.money/gateway/extproc/layers/injection"
	"bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/layers/promptlog"
	"bardo.money/gateway/extproc/layers/retrieval"
	"bardo.money/gateway/extproc/layers/semcache"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	anthropicprovider "bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/bankr"
	"bardo.money/gateway/extproc/provider/bardo"
	"bardo.money/gateway/extproc/provider/bedrock"
	"bardo.money/gateway/extproc/provider/blockrun"
	"bardo.money/gateway/extproc/provider/compatible"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/provider/deepseek"
	"bardo.money/gateway/extproc/provider/demo"
	"bardo.money/gateway/extproc/provider/google"
	openaiprovider "bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/provider/qwen"
	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy/auth"
)

// Every part of the gateway is listed here, in order, and nowhere else.

// All returns the parts of a gateway.
func All() run.Parts {
	return run.Parts{Adapters: Adapters(), Dialects: Dialects(), Layers: Layers(), Verifiers: verifiers, Explain: route.Explain}
}

// Adapters returns the adapters of the kinds of providers.
func Adapters() []provider.Described {
	return []provider.Described{
		blockrun.Adapter{},
		anthropicprovider.Adapter{},
		openaiprovider.Adapter{},
		google.Adapter{},
		openrouter.Adapter{},
		venice.Adapter{},
		bankr.Adapter{},
		deepseek.Adapter{},
		qwen.Adapter{},
		compatible.Mistral,
		compatible.XAI,
		compatible.Groq,
		compatible.Together,
		compatible.Fireworks,
		compatible.Cerebras,
		compatible.DeepInfra,
		compatible.Perplexity,
		compatible.Azure,
		bedrock.Adapter{},
		compatible.Ollama,
		custom.Adapter{},
		bardo.Adapter{},
		demo.Adapter{},
	}
}

func init() { settings.Kinds = Kinds() }

// Kinds describes the kinds of providers, in the default order of providers.
func Kinds() []kind.Kind {
	var out []kind.Kind
	for _, a := range Adapters() {
		out = append(out, a.Kind())
	}
	return out
}

// Dialects returns the formats of clients.
func Dialects() map[chat.Dialect]wire.Dialect {
	return map[chat.Dialect]wire.Dialect{
		chat.OpenAI:      openai.Dialect{},
		chat.Anthropic:   anthropic.Dialect{},
		chat.Completions: completions.Dialect{},
		chat.Embeddings:  embeddings.Dialect{},
		chat.Gemini:      gemini.Dialect{},
		chat.Responses:   responses.Dialect{},
	}
}

// Layers returns a function that builds the context pipeline, in order of execution, for one configuration after another. State that layers keep about requests
// outlives a reload.
func Layers() run.Layers {
	var warm *affinity.Memory // created with the first configuration, which says whether gateways share a store
	choices, vectors, prompts, texts, histories := toolprune.NewChoices(), toolprune.NewVectors(), align.NewMemory(), &injection.Memory{}, compress.NewMemory()
	return func(cfg *config.Config, s *run.Services) []pipeline.Layer {
		if warm == nil {
			warm = affinity.New(s.Conversations)
		}
		personal := pii.Layer{Mode: pii.Mode(cfg.Pipeline.PII.Policy), RefuseParts: pii.Refuse(cfg.Pipeline.PII.RefuseUnread), Finder: settings.PersonalData(&cfg.Pipeline.PII), Secret: s.Secret}
		personal.Names = settings.Names(cfg, s.Recognizer)
		found := settings.Retrieval(&cfg.Pipeline.Retrieval, s.Memory, retrieval.Client{HTTP: s.Egress, Secret: s.EgressSecret})
		found.Guard, found.Personal = personal, personal.Finder
		kept := promptlog.Layer{Keys: settings.PromptKeys(&cfg.Telemetry.Prompts), Log: s.Prompts, Mask: personal}
		return []pipeline.Layer{
			kept,
			firewall.New(settings.FirewallRules(&cfg.Pipeline.Firewall)).InShadow(cfg.Pipeline.Firewall.Shadow),
			found,
			injectionLayer(cfg, s, texts),
			personal,
			guardrail.Layer{Hooks: settings.Guardrails(cfg.Pipeline.Guardrails), Client: s.Egress, Secret: s.EgressSecret},
			hashcache.Layer{Store: s.Answers, Mode: hashcache.Mode(cfg.Pipeline.Hash), Pool: cfg.Pipeline.Pool == "free", TTL: cfg.Inference.Caching.TTL()},
			semcache.Layer{
				Mode: semcache.Mode(cfg.Pipeline.Semantic), Pool: cfg.Pipeline.Pool == "free", Store: s.Answers, Index: s.Questions, Model: s.Meaning, Threshold: cfg.Inference.Caching.Threshold,
				TTL: cfg.Inference.Caching.TTL(), Timeout: cfg.Pipeline.SemanticTimeout, Scope: settings.SemanticScope(cfg), Count: func(r semcache.Result) { s.Metrics.SemanticLookup(string(r)) },
			},
			toolprune.Layer{
				Mode: toolprune.Mode(cfg.Pipeline.Tools.Mode), Meta: toolprune.Mode(cfg.Pipeline.Tools.Meta), Tasks: toolprune.DefaultTasks.With(cfg.Pipeline.Tools.Map), Memory: choices,
				Embedder: s.Embedder, Vectors: vectors, VectorStore: s.Vectors,
			},
			compress.Layer{
				Off: cfg.Pipeline.Compression.Mode == "off", Recall: cfg.Pipeline.Compression.Recall == "on", Memory: histories, Keep: cfg.Pipeline.Compression.KeepTurns,
				Summaries: settings.Summaries(&cfg.Pipeline.Compression),
			},
			defi.Layer{Facts: s.Facts, MaxTokens: cfg.Pipeline.DeFi.MaxTokens, Plans: settings.DeFiPlans(cfg)},
			align.Layer{Memory: prompts, NoMarks: !cfg.Inference.Caching.AutoCacheControl},
			affinity.Layer{Memory: warm, Spread: settings.Spread(cfg)},
		}
	}
}

// Guards returns the layers that act by policy, for explanations without a gateway. They lack what serving requests needs.
func Guards(cfg *config.Config) *pipeline.Pipeline {
	in := &cfg.Pipeline.Injection
	return pipeline.New(injection.Layer{Policies: settings.Injections(in), User: injection.Policy(in.User)}, pii.Layer{Mode: pii.Mode(cfg.Pipeline.PII.Policy)})
}

// injectionLayer is layer l8. With models.injection off it uses patterns only.
func injectionLayer(cfg *config.Config, s *run.Services, m *injection.Memory) injection.Layer {
	c, scores := s.Classifier, cfg.Models.Injection != models.Off
	if !scores {
		c = nil
	}
	in := &cfg.Pipeline.Injection
	detector, beside := m.With(c, in.Threshold)
	l := injection.Layer{
		Policies: settings.Injections(in), User: injection.Policy(in.User), Timeout: in.Timeout, Refuse: in.OnError != "allow",
		Detector: detector, Scores: scores, Background: beside, SecondOpinion: s.SecondOpinion, Events: s.Events,
	}
	if s.Metrics != nil {
		l.Meter = s.Metrics
	}
	return l
}

// verifiers are the authentication schemes, in the order in which they are tried.
func verifiers(keys *auth.APIKeys) auth.Chain { return auth.Chain{keys} }
