package profile

import (
	"cmp"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// fields are the members of a profile by their names in hints, with how to check whether one is set and how to copy it from another profile.
var fields = []struct {
	name  string
	isSet func(*policy.Profile) bool
	fill  func(out, from *policy.Profile)
}{
	{
		"temperature", func(p *policy.Profile) bool { return p.Temperature != nil },
		func(out, from *policy.Profile) { out.Temperature = cmp.Or(out.Temperature, from.Temperature) },
	},
	{
		"top_p", func(p *policy.Profile) bool { return p.TopP != nil },
		func(out, from *policy.Profile) { out.TopP = cmp.Or(out.TopP, from.TopP) },
	},
	{
		"top_k", func(p *policy.Profile) bool { return p.TopK != nil },
		func(out, from *policy.Profile) { out.TopK = cmp.Or(out.TopK, from.TopK) },
	},
	{
		"min_p", func(p *policy.Profile) bool { return p.MinP != nil },
		func(out, from *policy.Profile) { out.MinP = cmp.Or(out.MinP, from.MinP) },
	},
	{
		"frequency_penalty", func(p *policy.Profile) bool { return p.FrequencyPenalty != nil },
		func(out, from *policy.Profile) {
			out.FrequencyPenalty = cmp.Or(out.FrequencyPenalty, from.FrequencyPenalty)
		},
	},
	{
		"presence_penalty", func(p *policy.Profile) bool { return p.PresencePenalty != nil },
		func(out, from *policy.Profile) {
			out.PresencePenalty = cmp.Or(out.PresencePenalty, from.PresencePenalty)
		},
	},
	{
		"reasoning_effort", func(p *policy.Profile) bool { return p.Effort != policy.EffortUnset },
		func(out, from *policy.Profile) { out.Effort = cmp.Or(out.Effort, from.Effort) },
	},
	{
		"visible_thinking", func(p *policy.Profile) bool { return p.VisibleThinking != nil },
		func(out, from *policy.Profile) {
			out.VisibleThinking = cmp.Or(out.VisibleThinking, from.VisibleThinking)
		},
	},
	{
		"response_schema", func(p *policy.Profile) bool { return len(p.Schema) > 0 || p.SchemaName != "" },
		func(out, from *policy.Profile) {
			if len(out.Schema) == 0 && out.SchemaName == "" {
				out.Schema, out.SchemaName = from.Schema, from.SchemaName
			}
		},
	},
	{
		"max_tokens", func(p *policy.Profile) bool { return p.MaxTokens > 0 },
		func(out, from *policy.Profile) { out.MaxTokens = cmp.Or(out.MaxTokens, from.MaxTokens) },
	},
	{
		"stop_sequences", func(p *policy.Profile) bool { return p.Stop != nil },
		func(out, from *policy.Profile) {
			if out.Stop == nil {
				out.Stop = from.Stop
			}
		},
	},
	{
		"prompt_cache_key", func(p *policy.Profile) bool { return p.PromptCacheKey != "" },
		func(out, from *policy.Profile) { out.PromptCacheKey = cmp.Or(out.PromptCacheKey, from.PromptCacheKey) },
	},
	{
		"cache_control", func(p *policy.Profile) bool { return p.CacheControl != nil },
		func(out, from *policy.Profile) { out.CacheControl = cmp.Or(out.CacheControl, from.CacheControl) },
	},
	{
		"web_search", func(p *policy.Profile) bool { return p.WebSearch != nil },
		func(out, from *policy.Profile) { out.WebSearch = cmp.Or(out.WebSearch, from.WebSearch) },
	},
	{
		"tee_mode", func(p *policy.Profile) bool { return p.TEE != nil },
		func(out, from *policy.Profile) { out.TEE = cmp.Or(out.TEE, from.TEE) },
	},
	{
		"predicted_output", func(p *policy.Profile) bool { return p.PredictedOutput != "" },
		func(out, from *policy.Profile) {
			out.PredictedOutput = cmp.Or(out.PredictedOutput, from.PredictedOutput)
		},
	},
	{
		"seed", func(p *policy.Profile) bool { return p.Seed != nil },
		func(out, from *policy.Profile) { out.Seed = cmp.Or(out.Seed, from.Seed) },
	},
}

// fill sets the unset fields of out. Mutually exclusive sampling parameters come from one of the two: setting min_p excludes top_p.
func fill(out, from *policy.Profile) {
	draws := out.TopP != nil || out.MinP != nil
	own := *out
	for i := range fields {
		fields[i].fill(out, from)
	}
	if draws {
		out.TopP, out.MinP = own.TopP, own.MinP
	}
}

// parameterNames returns the names of the fields that are set.
func parameterNames(p *policy.Profile) (names []string) {
	if p == nil {
		return nil
	}
	for i := range fields {
		if fields[i].isSet(p) {
			names = append(names, fields[i].name)
		}
	}
	return names
}

// params converts a profile to a request's parameters.
func params(p *policy.Profile) chat.Params {
	out := chat.Params{
		Temperature: decimal(p.Temperature), TopP: decimal(p.TopP), MinP: decimal(p.MinP),
		FrequencyPenalty: decimal(p.FrequencyPenalty), PresencePenalty: decimal(p.PresencePenalty),
		Effort: p.Effort.String(), Visible: p.VisibleThinking, WebSearch: p.WebSearch, Stop: p.Stop,
		CacheKey: p.PromptCacheKey, Predicted: p.PredictedOutput,
		MarkCache: p.CacheControl != nil && *p.CacheControl, TEE: p.TEE != nil && *p.TEE,
	}
	if len(p.Schema) > 0 {
		out.Schema, out.SchemaName = p.Schema, p.SchemaName
	}
	if p.TopK != nil {
		out.TopK = strconv.Itoa(*p.TopK)
	}
	if p.Seed != nil {
		out.Seed = strconv.FormatInt(*p.Seed, 10)
	}
	return out
}

// lock makes a locked row's values override the caller's. Cache control and visible reasoning stay defaults that the caller overrides.
func lock(c *chat.Profile, p *policy.Profile) {
	all := params(p)
	c.Locked = chat.Params{
		Temperature: all.Temperature, TopP: all.TopP, TopK: all.TopK, MinP: all.MinP, Effort: all.Effort,
	}
	c.Default = chat.Params{Visible: all.Visible, CacheKey: all.CacheKey, MarkCache: all.MarkCache}
}

// decimal returns a number's shortest text, without an exponent.
func decimal(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}
