// Package modelfile has the types of model entries in files, configurations and providers' lists: limits, prices, features. Unknown values are nil,
// zero or empty. It reads nothing itself: internal/config decodes, prints and documents the fields by their tags.
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

	Vendors  []Vendor `key:"vendors" doc:"Vendors of model families, and the ids by which the family of an unlisted model is recognised."`
	Families []Model  `key:"families" doc:"What holds for all models whose ids begin alike, listed here or not: the id ends in *. Of several that fit, the longest comes first."`
}

// Vendor is the vendor of a family of models.
type Vendor struct {
	Family        string   `key:"family" doc:"The family."`
	Vendor        string   `key:"vendor" doc:"The ordinary provider that serves it."`
	Prefixes      []string `key:"prefixes" doc:"Prefixes of its models' ids; # stands for a digit."`
	SignsThinking bool     `key:"signs_thinking" doc:"Its models sign their thinking and refuse a history with other signatures."`
	BatchPct      int      `key:"batch_pct" min:"0" max:"100" doc:"What tokens cost in the vendor's batch API, in percent of their price; 0: it has none."`
}

// Model is an entry of the operator's, or of the embedded catalog. Only ID is required; unset values are nil, zero or empty, and are taken from the
// catalog.
type Model struct {
	ID            string           `key:"id" doc:"The id that clients use."`
	UpstreamID    string           `key:"upstream_id" doc:"The provider's name of the model. Without it, the id."`
	Aliases       []string         `key:"aliases" doc:"Other ids for the same model."`
	Family        string           `key:"family" doc:"The family: gpt, o, claude, gemini, deepseek, qwen or a name of your own."`
	Context       int              `key:"context" min:"0" max:"1000000000" doc:"Window in tokens."`
	MaxOutput     int              `key:"max_output" min:"0" max:"1000000000" doc:"Maximum output tokens of one answer."`
	Price         *Price           `key:"price" doc:"USD per million tokens."`
	Capabilities  []policy.Feature `key:"capabilities" doc:"Features of the model."`
	Lacks         []policy.Feature `key:"lacks" doc:"Features that it lacks at this provider; overrides all other sources."`
	SchemaAlone   *bool            `key:"schema_alone" doc:"It accepts a response schema or functions, but not both, like Gemini's models before the third generation."`
	Quality       string           `key:"quality" oneof:"minimum low medium high maximum" doc:"Quality class."`
	Reasoning     string           `key:"reasoning" oneof:"auto none anthropic openai responses gemini deepseek qwen openrouter venice vllm mistral kimi seed gemma tags" doc:"Where its reasoning is found: automatically, nowhere, or as for a kind of provider or model."`
	ImplicitOpen  *bool            `key:"implicit_open" doc:"Answers begin inside reasoning: the prompt has the opening tag."`
	ResponsesOnly *bool            `key:"responses_only" doc:"It is available only in the Responses API, like OpenAI's pro, codex and deep-research models: if its provider supports that API, it is used for all clients."`
	NamedOnly     *bool            `key:"named_only" doc:"It serves only requests that name it; auto does not select it."`
	FixedSampling *bool            `key:"fixed_sampling" doc:"It refuses temperature, top_p, penalties and max_tokens, like many of OpenAI's reasoning models: they are removed, and the limit is sent as max_completion_tokens."`
	ToolFormat    string           `key:"tool_format" oneof:"native hermes qwen json" doc:"How it calls tools: native, or as text in the format of hermes, qwen or plain json. Without it, as in the catalog, else native."`
	LatencyP50MS  int              `key:"latency_p50_ms" min:"0" max:"3600000" doc:"Usual time to the first token, in milliseconds."`
	Vendor        string           `key:"vendor" doc:"The ordinary provider that serves it (openai, anthropic, google, deepseek, qwen), or none. Without it, the one of its family."`
	Strengths     *Strengths       `key:"strengths" doc:"Strengths from 0 to 1. Without a quality, their mean determines it: below 0.25 minimum, 0.45 low, 0.65 medium, 0.85 high, else maximum."`
	Thinking      *Thinking        `key:"thinking" doc:"How its reasoning is controlled."`
	MinCache      int              `key:"min_cache" min:"0" max:"1000000000" doc:"Minimum prompt length in tokens that its provider caches."`
}

// Strengths are a model's quality by task, from 0 to 1; nil is unknown.
type Strengths struct {
	Reasoning            *float64 `key:"reasoning" min:"0" max:"1" doc:"Long reasoning."`
	CodeGeneration       *float64 `key:"code_generation" min:"0" max:"1" doc:"Writing code."`
	ToolCallAccuracy     *float64 `key:"tool_call_accuracy" min:"0" max:"1" doc:"Correct calls with correct arguments."`
	SchemaAdherence      *float64 `key:"schema_adherence" min:"0" max:"1" doc:"Answers that follow a schema."`
	DeFiKnowledge        *float64 `key:"defi_knowledge" min:"0" max:"1" doc:"Knowledge of decentralised finance."`
	InstructionFollowing *float64 `key:"instruction_following" min:"0" max:"1" doc:"Following instructions exactly."`
}

// Known returns the known strengths by their keys; none for nil.
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

// Thinking is how a model's reasoning effort is controlled.
type Thinking struct {
	Control policy.ReasoningControl `key:"control" oneof:"none always effort toggle streamed template slash budget level adaptive" doc:"The kind of control. Without it, as is usual at its provider."`
	Efforts []string                `key:"efforts" doc:"The efforts that it accepts, lowest first; an empty list for none. Without it, any."`
	Default policy.ThinkingDefault  `key:"default" oneof:"on always" doc:"Its behaviour without a parameter: on, it thinks unless turned off; always, it cannot be turned off. Without it, it does not think."`
	Display *bool                   `key:"display" doc:"Whether its thinking can be requested in the answer."`
}

// Price is USD per million tokens, or per other units. Input and output are given together.
type Price struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	PerRequest   *policy.Micro `key:"per_request" doc:"USD per request, in addition to its tokens."`
	PerSearch    *policy.Micro `key:"per_search" doc:"USD per web search of the provider."`

	Above        []LongPrice          `key:"above" doc:"Prices of requests with longer prompts, for all of their tokens. An empty list: the usual prices."`
	Hours        []HourPrice          `key:"hours" doc:"Prices by the time of the day at which a request arrives: those of the first part that has it, else the usual ones."`
	ServiceTiers map[string]TierPrice `key:"service_tiers" doc:"Prices of requests in another service tier, by the provider's name of the tier: priority, flex."`

	ImageInput   *policy.Price           `key:"image_input" doc:"Input tokens of images. Without it, as input."`
	AudioInput   *policy.Price           `key:"audio_input" doc:"Input tokens of audio. Without it, as input."`
	AudioOutput  *policy.Price           `key:"audio_output" doc:"Output tokens of audio in realtime sessions. Without it, as output."`
	CachedAudio  *policy.Price           `key:"cached_audio" doc:"Input tokens of audio in the prompt cache, in realtime sessions. Without it, as audio_input."`
	CachedImage  *policy.Price           `key:"cached_image" doc:"Input tokens of images in the prompt cache, in realtime sessions. Without it, as image_input."`
	Characters   *policy.Price           `key:"characters" doc:"USD per million characters of text that is spoken."`
	PerHour      *policy.Micro           `key:"per_hour" doc:"USD per hour of audio, billed by the second."`
	MinSeconds   int                     `key:"min_seconds" min:"0" max:"3600" doc:"Seconds of audio that a request is billed for at least."`
	PerImage     *policy.Micro           `key:"per_image" doc:"USD per generated image."`
	Images       map[string]policy.Micro `key:"images" doc:"USD per generated image of a size (1024x1024), a quality (hd), or both (hd/1024x1024). Overrides per_image."`
	PerMegapixel *policy.Micro           `key:"per_megapixel" doc:"USD per million pixels of a generated image."`
	Steps        int                     `key:"steps" min:"0" max:"1000" doc:"Inference steps that per_megapixel includes: more cost in proportion."`

	Source  string    // where the price was read; not a key, set by the reader
	Updated time.Time // when it was read
}

// LongPrice is the price of requests with prompts above a number of tokens.
type LongPrice struct {
	Tokens       int           `key:"tokens" min:"1" max:"1000000000" doc:"Applies above this number of tokens, cached ones included."`
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
}

// TierPrice is the price in a tier of service.
type TierPrice struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	Above        []LongPrice   `key:"above" doc:"Prices of longer prompts in that tier. Without it, the usual ones."`
}
