package reasoning

import (
	"bytes"
	"strings"
)

// OpenRouter serves the models of many vendors in one form. What their reasoning is depends on whose they are, which the model's id says
// before its slash; where the typed objects of reasoning_details say more, they count.

// upstreams are OpenRouter's names of vendors, and the dialects of their models.
var upstreams = map[string]string{
	"anthropic": anthropic, "openai": responses, "google": gemini, "deepseek": deepSeek, "qwen": qwen, "mistralai": mistral, "moonshotai": kimi,
	"bytedance-seed": seed, "bytedance": seed,
}

// routed is the dialect of an upstream model, as OpenRouter shows it.
func routed(upstream, family string) Dialect {
	d := untagged(must(openRouter), family)
	vendor, _, _ := strings.Cut(upstream, "/")
	by, known := named(upstreams[vendor])
	if !known {
		return d
	}
	d.Shows, d.Tags = by.Shows, by.Tags
	return d
}

// shown is what an array of reasoning_details shows; None if it does not say.
func shown(details []byte) Visibility {
	switch {
	case bytes.Contains(details, []byte(`"reasoning.text"`)):
		return Visible
	case bytes.Contains(details, []byte(`"reasoning.summary"`)):
		return Summarized
	case bytes.Contains(details, []byte(`"reasoning.encrypted"`)):
		return Opaque
	}
	return None
}
