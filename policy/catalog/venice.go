package catalog

import (
	"encoding/json"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// veniceEntry is an entry of Venice's /api/v1/models. Prices are USD per million tokens.
type veniceEntry struct {
	ID, Type string
	Offline  bool
	Context  tokenCount `json:"context_length"`
	Spec     struct {
		Context      tokenCount `json:"availableContextTokens"`
		MaxOutput    tokenCount `json:"maxCompletionTokens"`
		Privacy      string
		Offline      bool
		Capabilities struct {
			Functions     bool       `json:"supportsFunctionCalling"`
			Schema        bool       `json:"supportsResponseSchema"`
			Vision        bool       `json:"supportsVision"`
			Audio         bool       `json:"supportsAudioInput"`
			Video         bool       `json:"supportsVideoInput"`
			WebSearch     bool       `json:"supportsWebSearch"`
			Reasoning     bool       `json:"supportsReasoning"`
			Effort        bool       `json:"supportsReasoningEffort"`
			EffortOptions stringList `json:"reasoningEffortOptions"`
			TEE           bool       `json:"supportsTeeAttestation"`
			E2EE          bool       `json:"supportsE2EE"`
		}
		Pricing struct {
			Input, Output usd
			CacheInput    usd `json:"cache_input"`
			CacheWrite    usd `json:"cache_write"`
		}
	} `json:"model_spec"`
}

// usd is a price in one of Venice's currencies.
type usd struct{ USD amount }

// UnmarshalJSON accepts any value; one that is no price in dollars counts as absent.
func (u *usd) UnmarshalJSON(b []byte) error {
	var p struct{ USD amount }
	if json.Unmarshal(b, &p) == nil {
		u.USD = p.USD
	}
	return nil
}

func (u usd) price() *policy.Price { return price(string(u.USD), perMillion) }

// private is Venice's word for a model that it runs itself and whose prompts it does not retain.
const private = "private"

func veniceModel(raw json.RawMessage) (modelfile.Model, bool) {
	var e veniceEntry
	if json.Unmarshal(raw, &e) != nil || e.Type != "" && e.Type != "text" || e.Offline || e.Spec.Offline {
		return modelfile.Model{}, false
	}
	s, c := &e.Spec, &e.Spec.Capabilities
	return modelfile.Model{
		ID: e.ID, Context: first(s.Context, e.Context), MaxOutput: first(s.MaxOutput), Thinking: e.thinking(),
		ToolFormat: nativeIf(c.Functions),
		Price: tokens(modelfile.Price{
			Input: s.Pricing.Input.price(), Output: s.Pricing.Output.price(), CachedInput: s.Pricing.CacheInput.price(), CacheWrite: s.Pricing.CacheWrite.price(),
		}),
		Capabilities: features(
			claim{policy.Privacy, s.Privacy == private}, claim{policy.VisibleThinking, c.Reasoning}, claim{policy.LowEffort, c.Effort},
			claim{policy.StructuredOutputs, c.Schema}, claim{policy.PromptCaching, s.Pricing.CacheInput.USD != ""}, claim{policy.WebSearch, c.WebSearch},
			claim{policy.TEEAttested, c.TEE}, claim{policy.NoLog, s.Privacy == private}, claim{policy.Tools, c.Functions}, claim{policy.Vision, c.Vision},
			claim{policy.EndToEndEncryption, c.E2EE}, claim{policy.Audio, c.Audio}, claim{policy.Video, c.Video},
		),
	}, true
}

func (e *veniceEntry) thinking() *modelfile.Thinking {
	c := &e.Spec.Capabilities
	switch {
	case c.Effort:
		return &modelfile.Thinking{Control: policy.ControlEffort, Efforts: efforts(c.EffortOptions), Display: new(true)}
	case c.Reasoning:
		return &modelfile.Thinking{Control: policy.ControlToggle, Display: new(true)}
	}
	return &modelfile.Thinking{Control: policy.ControlNone}
}
