// Package modelfile is what a file, a configuration or a provider's own list says about models: limits, prices, features. What nobody said is
// nil, zero or empty. It reads nothing itself: the tags are those of internal/config, which decodes, prints and documents the fields by them.
package modelfile

import (
	"time"

	"bardo.money/gateway/policy"
)

// File is a file of model entries: the embedded catalog, and the operator's models.catalog.
type File struct {
	Source string  `key:"source" doc:"Where the data come from."`
	AsOf   string  `key:"as_of" doc:"The day on which they were true."`
	Models []Model `key:"models" doc:"The models. An id may be provider/model to hold for one provider alone."`

	Families []Model `key:"families" doc:"What holds for all models whose ids begin alike, listed here or not: the id ends in *. Of several that fit, the longest comes first."`
}

// Model is what the operator, or the embedded catalog, says about a model. Only ID is required; what is not said is nil,
// zero or empty, and comes from the catalog.
type Model struct {
	ID            string           `key:"id" doc:"The id that clients use."`
	UpstreamID    string           `key:"upstream_id" doc:"The name that the provider knows the model by. Without it, the id."`
	Aliases       []string         `key:"aliases" doc:"Other ids for the same model."`
	Family        string           `key:"family" doc:"The family: gpt, o, claude, gemini, deepseek, qwen or a name of your own."`
	Context       int              `key:"context" min:"0" max:"1000000000" doc:"Window in tokens."`
	MaxOutput     int              `key:"max_output" min:"0" max:"1000000000" doc:"Most output tokens of one answer."`
	Price         *Price           `key:"price" doc:"USD per million tokens."`
	Capabilities  []policy.Feature `key:"capabilities" doc:"Features of the model."`
	Lacks         []policy.Feature `key:"lacks" doc:"Features that it does not have there, whatever else is said of it."`
	SchemaAlone   *bool            `key:"schema_alone" doc:"It takes a schema of the answer or functions, not both, as Gemini's models before the third generation."`
	Quality       string           `key:"quality" oneof:"minimum low medium high maximum" doc:"Quality class."`
	Reasoning     string           `key:"reasoning" oneof:"auto none anthropic openai responses gemini deepseek qwen openrouter venice vllm mistral kimi seed gemma tags" doc:"Where its reasoning is found: by who answers and how, nowhere, or as in the answers of a kind of provider or model."`
	ImplicitOpen  *bool            `key:"implicit_open" doc:"Answers begin inside reasoning: the prompt has the opening tag."`
	ResponsesOnly *bool            `key:"responses_only" doc:"It is served in Responses alone, as OpenAI's pro, codex and deep-research models are: where its provider speaks that, all clients are served in it."`
	NamedOnly     *bool            `key:"named_only" doc:"It serves those who ask for it by name; the gateway does not choose it by itself."`
	FixedSampling *bool            `key:"fixed_sampling" doc:"It refuses temperature, top_p, penalties and max_tokens, as many of OpenAI's models that reason do: they are left out, and the limit is called max_completion_tokens."`
	ToolFormat    string           `key:"tool_format" oneof:"native hermes qwen json" doc:"How it calls tools: native, or written into its text in the format of hermes, qwen or plain json. Without it, as the catalog says, else native."`
	LatencyP50MS  int              `key:"latency_p50_ms" min:"0" max:"3600000" doc:"Usual time to the first token, in milliseconds."`
	Vendor        string           `key:"vendor" doc:"The ordinary provider that serves it (openai, anthropic, google, deepseek, qwen), or none. Without it, the one of its family."`
	Strengths     *Strengths       `key:"strengths" doc:"How good it is at what, from 0 to 1. Without a quality, their mean says it: below 0.25 minimum, 0.45 low, 0.65 medium, 0.85 high, else maximum."`
	Thinking      *Thinking        `key:"thinking" doc:"How it is told how hard to think."`
	MinCache      int              `key:"min_cache" min:"0" max:"1000000000" doc:"Least tokens of a prompt that its provider caches."`
}

// Strengths say how good a model is at what, from 0 to 1. What is nil is not known.
type Strengths struct {
	Reasoning            *float64 `key:"reasoning" min:"0" max:"1" doc:"Long chains of thought."`
	CodeGeneration       *float64 `key:"code_generation" min:"0" max:"1" doc:"Writing code."`
	ToolCallAccuracy     *float64 `key:"tool_call_accuracy" min:"0" max:"1" doc:"The right call with the right arguments."`
	SchemaAdherence      *float64 `key:"schema_adherence" min:"0" max:"1" doc:"Answers that follow a schema."`
	DeFiKnowledge        *float64 `key:"defi_knowledge" min:"0" max:"1" doc:"What it knows of decentralised finance."`
	InstructionFollowing *float64 `key:"instruction_following" min:"0" max:"1" doc:"Doing what it was told, and nothing else."`
}

// Known are the strengths that are known, by their keys. A nil value knows none.
func (s *Strengths) Known() map[string]float64 {
	if s == nil {
		return nil
	}
	out := map[string]float64{}
	for name, v := range map[string]*float64{
		"reasoning": s.Reasoning, "code_generation": s.CodeGeneration, "tool_call_accuracy": s.ToolCallAccuracy,
		"schema_adherence": s.SchemaAdherence, "defi_knowledge": s.DeFiKnowledge, "instruction_following": s.InstructionFollowing,
	} {
		if v != nil {
			out[name] = *v
		}
	}
	return out
}

// Thinking says how a model is told how hard to think.
type Thinking struct {
	Control policy.ReasoningControl `key:"control" oneof:"none always effort toggle streamed template slash budget level adaptive" doc:"By what. Without it, as is usual at its provider."`
	Efforts []string                `key:"efforts" doc:"The efforts that it takes, least first; an empty list for none. Without it, whatever comes."`
	Default policy.ThinkingDefault  `key:"default" oneof:"on always" doc:"What it does where nobody says how hard to think: on, it thinks until it is told not to; always, whatever it is told. Without it, it does not."`
	Display *bool                   `key:"display" doc:"Whether its thinking can be asked for in the answer."`
}

// Price is USD per million tokens. Input and output are given together.
type Price struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	PerRequest   *policy.Micro `key:"per_request" doc:"USD for each request, besides its tokens."`
	PerSearch    *policy.Micro `key:"per_search" doc:"USD for each search of the web that the provider makes."`

	Above        []LongPrice          `key:"above" doc:"What requests cost whose prompts are longer, the whole of them. An empty list: no more than others."`
	ServiceTiers map[string]TierPrice `key:"service_tiers" doc:"What requests cost that ask for another tier of service and get it, by the provider's name of the tier: priority, flex."`

	Source  string    // where the price was read; not a key: whoever read it says so
	Updated time.Time // when
}

// LongPrice is what requests cost whose prompts are longer than a number of tokens.
type LongPrice struct {
	Tokens       int           `key:"tokens" min:"1" max:"1000000000" doc:"Longer than so many tokens, those of the provider's cache included."`
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
}

// TierPrice is what requests cost in a tier of service.
type TierPrice struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	Above        []LongPrice   `key:"above" doc:"What longer prompts cost there. Without it, no more than others."`
}
