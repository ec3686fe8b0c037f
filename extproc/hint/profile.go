package hint

import (
	"slices"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

const (
	maxSchema = 256 << 10
	maxText   = 512 << 10 // a predicted output
	maxStop   = 1024
	maxStops  = 16
	maxTokens = 10_000_000
	maxTopK   = 1_000_000
)

// profile are the members of an inference profile.
var profile = []member[policy.Profile]{
	{name: "temperature", set: func(p *policy.Profile, v value) error { return v.number(&p.Temperature, 0, 2) }},
	{name: "top_p", set: func(p *policy.Profile, v value) error { return v.number(&p.TopP, 0, 1) }},
	{name: "top_k", set: func(p *policy.Profile, v value) error {
		var n int64
		err := v.integer(&n, 1, maxTopK)
		if k := int(n); err == nil {
			p.TopK = &k
		}
		return err
	}},
	{name: "min_p", set: func(p *policy.Profile, v value) error { return v.number(&p.MinP, 0, 1) }},
	{name: "frequency_penalty", set: func(p *policy.Profile, v value) error { return v.number(&p.FrequencyPenalty, -2, 2) }},
	{name: "presence_penalty", set: func(p *policy.Profile, v value) error { return v.number(&p.PresencePenalty, -2, 2) }},
	{name: "reasoning_effort", set: func(p *policy.Profile, v value) error {
		return oneOf(&p.Effort, v, policy.ParseEffort, "none, low, medium, high or max")
	}},
	{name: "visible_thinking", set: func(p *policy.Profile, v value) error { return v.optionalBool(&p.VisibleThinking) }},
	{name: "response_schema", set: readResponseSchema},
	{name: "max_tokens", set: func(p *policy.Profile, v value) error {
		var n int64
		err := v.integer(&n, 1, maxTokens)
		p.MaxTokens = int(n)
		return err
	}},
	{name: "stop_sequences", set: readStops},
	{name: "prompt_cache_key", set: func(p *policy.Profile, v value) error { return v.token(&p.PromptCacheKey, maxID) }},
	{name: "cache_control", set: func(p *policy.Profile, v value) error { return v.optionalBool(&p.CacheControl) }},
	{name: "web_search", set: func(p *policy.Profile, v value) error { return v.optionalBool(&p.WebSearch) }},
	{name: "tee_mode", set: func(p *policy.Profile, v value) error { return v.optionalBool(&p.TEE) }},
	{name: "predicted_output", set: readPrediction},
	{name: "seed", set: func(p *policy.Profile, v value) error {
		var n int64
		err := v.integer(&n, 0, 1<<63-1)
		if err == nil {
			p.Seed = &n
		}
		return err
	}},
}

func readProfile(h *policy.Hints, v value) error {
	object, err := v.object()
	if err != nil {
		return err
	}
	h.Profile = &policy.Profile{}
	return readObject(h.Profile, object, profile, 0, maxObject, "profile", &h.Unknown)
}

// schema are the members of a response schema. strict is accepted and ignored: schemas are always sent as strict.
var schema = []member[policy.Profile]{
	{name: "name", set: func(p *policy.Profile, v value) error { return v.word(&p.SchemaName) }},
	{name: "schema", set: func(p *policy.Profile, v value) error {
		if v.json.Kind() != jsonx.Object {
			return v.invalid("expected a JSON Schema")
		}
		p.Schema = slices.Clone(v.json.Raw)
		return nil
	}},
	{name: "strict", set: func(_ *policy.Profile, v value) error { return v.boolean(new(bool)) }},
}

// readResponseSchema parses a schema with its name, or the name of a built-in schema.
func readResponseSchema(p *policy.Profile, v value) error {
	if s, ok := v.str(); ok && s != "" {
		return v.word(&p.SchemaName)
	}
	var unknown []string
	if err := readObject(p, v.json, schema, 0, maxSchema, "", &unknown); err != nil {
		return err
	}
	if p.Schema == nil && p.SchemaName == "" {
		return withPath(".schema", &hintError{problem: "is required, or the name of a published schema"})
	}
	return nil
}

func readStops(p *policy.Profile, v value) error {
	p.Stop = []string{}
	return v.items(func(i int, item value) error {
		s, ok := item.str()
		if !ok || s == "" || len(s) > maxStop || i >= maxStops {
			return item.invalid("expected at most %d texts of 1 to %d bytes", maxStops, maxStop)
		}
		p.Stop = append(p.Stop, s)
		return nil
	})
}

func readPrediction(p *policy.Profile, v value) error {
	s, ok := v.str()
	if !ok || len(s) > maxText {
		return v.invalid("expected a text of at most %d bytes", maxText)
	}
	p.PredictedOutput = s
	return nil
}
