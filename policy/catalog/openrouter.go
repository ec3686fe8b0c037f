package catalog

import (
	"encoding/json"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// openRouterEntry is an entry of OpenRouter's /api/v1/models. Prices are USD per token, and -1 where they vary.
type openRouterEntry struct {
	ID            string
	ContextLength tokenCount `json:"context_length"`
	Architecture  struct {
		Input  stringList `json:"input_modalities"`
		Output stringList `json:"output_modalities"`
	}
	Pricing struct {
		Prompt, Completion, Request amount
		WebSearch                   amount `json:"web_search"`
		InternalReasoning           amount `json:"internal_reasoning"`
		CacheRead                   amount `json:"input_cache_read"`
		CacheWrite                  amount `json:"input_cache_write"`
		CacheWrite1h                amount `json:"input_cache_write_1h"`
	}
	TopProvider struct {
		ContextLength       tokenCount `json:"context_length"`
		MaxCompletionTokens tokenCount `json:"max_completion_tokens"`
	} `json:"top_provider"`
	Parameters stringList `json:"supported_parameters"`
	Reasoning  json.RawMessage
}

func openRouterModel(raw json.RawMessage) (modelfile.Model, bool) {
	var e openRouterEntry
	if json.Unmarshal(raw, &e) != nil || e.Architecture.Output != nil && !e.Architecture.Output.has("text") {
		return modelfile.Model{}, false
	}
	m := modelfile.Model{
		ID: e.ID, Context: first(e.ContextLength, e.TopProvider.ContextLength), MaxOutput: first(e.TopProvider.MaxCompletionTokens),
		Price: e.price(),
	}
	if e.Parameters == nil {
		return m, true
	}
	reasons := e.Parameters.has("reasoning", "include_reasoning", "reasoning_effort")
	m.Thinking = e.thinking(reasons)
	m.ToolFormat = nativeIf(e.Parameters.has("tools"))
	m.Capabilities = features(
		claim{policy.VisibleThinking, reasons}, claim{policy.LowEffort, reasons}, claim{policy.StructuredOutputs, e.Parameters.has("structured_outputs")},
		claim{policy.PromptCaching, e.Pricing.CacheRead != ""}, claim{policy.Tools, e.Parameters.has("tools")}, claim{policy.Vision, e.Architecture.Input.has("image")},
		claim{policy.Audio, e.Architecture.Input.has("audio")}, claim{policy.Video, e.Architecture.Input.has("video")}, claim{policy.Documents, e.Architecture.Input.has("file")},
	)
	return m, true
}

// thinking returns how the model's reasoning is controlled: always by OpenRouter's own parameter, if at all.
func (e *openRouterEntry) thinking(reasons bool) *modelfile.Thinking {
	if !reasons {
		return &modelfile.Thinking{Control: policy.ControlNone}
	}
	var parsed struct {
		Efforts stringList `json:"supported_efforts"`
	}
	_ = json.Unmarshal(e.Reasoning, &parsed) // it may be absent, or state only that there is reasoning
	return &modelfile.Thinking{Control: policy.ControlEffort, Efforts: efforts(parsed.Efforts), Display: new(true)}
}

// price returns OpenRouter's price. Where reasoning costs more than other output, all output is priced as reasoning.
func (e *openRouterEntry) price() *modelfile.Price {
	p := &e.Pricing
	out := modelfile.Price{
		Input: price(string(p.Prompt), perToken), Output: price(string(p.Completion), perToken), CachedInput: price(string(p.CacheRead), perToken),
		CacheWrite: price(string(p.CacheWrite), perToken), CacheWrite1h: price(string(p.CacheWrite1h), perToken),
		PerRequest: dollars(string(p.Request)), PerSearch: dollars(string(p.WebSearch)),
	}
	if r := price(string(p.InternalReasoning), perToken); r != nil && out.Output != nil && *r > *out.Output {
		out.Output = r
	}
	return tokens(out)
}
