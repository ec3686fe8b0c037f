package reasoning

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Dialect is how the answers of some provider, or of some models, show their reasoning. What stands in fields of its own is read by the
// decoders of wire formats, in whichever of its forms it comes; tags in the text, by a Reader.
type Dialect struct {
	Name           string
	Tags           []Tags     // that open thoughts in the text; none where the text is all words
	Shows          Visibility // what the text of thoughts is, where there is some
	BilledAsOutput bool       // the provider counts reasoning among output tokens and nowhere else
	Discount       float64    // of the price of reasoning; 1 is full, which it is everywhere so far
}

// The names of dialects, as models.catalog files and the configuration say them.
const (
	Auto       = "auto" // by who answers, and in which format
	Off        = "none" // there is none to be found
	anthropic  = "anthropic"
	openAI     = "openai"
	responses  = "responses"
	gemini     = "gemini"
	deepSeek   = "deepseek"
	qwen       = "qwen"
	openRouter = "openrouter"
	venice     = "venice"
	vllm       = "vllm"
	mistral    = "mistral"
	kimi       = "kimi"
	seed       = "seed"
	gemma      = "gemma"
	tagged     = "tags"
)

var thinks = []Tags{thinkTags}

// dialects is the table.
//
//	where its fields are found                        decoder
//	anthropic   content blocks, signed or redacted     wire/anthropic
//	openai      usage counts; text is not shown        wire/openai
//	responses   reasoning items, both event families   wire/responses
//	gemini      parts with thought: true, and counts   wire/gemini
//	openrouter  reasoning_details, reasoning           wire/openai
//	mistral     typed parts of content                 wire/openai
//	others      reasoning_content, reasoning           wire/openai
var dialects = []Dialect{
	{Name: Off, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: anthropic, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: openAI, Shows: Visible, Discount: 1},
	{Name: responses, Shows: Summarized, Discount: 1},
	{Name: gemini, Shows: Summarized, Discount: 1},
	{Name: deepSeek, Tags: thinks, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: qwen, Tags: thinks, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: openRouter, Tags: thinks, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: venice, Tags: thinks, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: vllm, Tags: thinks, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: mistral, Tags: []Tags{mistralTags, thinkTags}, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: kimi, Tags: []Tags{kimiTags, thinkTags}, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: seed, Tags: []Tags{seedTags}, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: gemma, Tags: []Tags{gemmaTags}, Shows: Visible, BilledAsOutput: true, Discount: 1},
	{Name: tagged, Tags: everySpelling(), Shows: Visible, BilledAsOutput: true, Discount: 1},
}

func everySpelling() []Tags {
	return append([]Tags{thinkTags, mistralTags, kimiTags, seedTags, gemmaTags}, askedTags...)
}

// Names are the dialects that a model can be said to have, besides Auto.
func Names() []string {
	names := make([]string, len(dialects))
	for i := range dialects {
		names[i] = dialects[i].Name
	}
	return names
}

func named(name string) (Dialect, bool) {
	i := slices.IndexFunc(dialects, func(d Dialect) bool { return d.Name == name })
	if i < 0 {
		return Dialect{}, false
	}
	return dialects[i], true
}

// must is a dialect of the table.
func must(name string) Dialect {
	d, _ := named(name)
	return d
}

// Of is the dialect of the answers of a model: the one that the catalog names, else by who answers and how. kind is its provider's
// kind, spoken the format of its answers.
func Of(kind string, to *policy.Resolution, spoken chat.Dialect) Dialect {
	if d, known := named(to.Reasoning); known {
		return d
	}
	family := to.Family
	switch {
	case spoken == chat.Responses:
		return must(responses)
	case spoken == chat.Gemini:
		return must(gemini)
	case kind == openRouter:
		return routed(to.Upstream, family)
	case kind == openAI, kind == deepSeek, kind == qwen:
		return must(kind)
	case kind == anthropic, spoken == chat.Anthropic && family == "claude":
		return claude(to)
	case kind == venice:
		return untagged(must(venice), family)
	}
	return ofFamily(to)
}

// families are the dialects of models that anybody may serve. What no row names writes, at its server's pleasure, into a field or
// between the usual tags.
var families = map[string]string{
	"gpt": openAI, "o": openAI, "gemini": gemini, "deepseek": deepSeek, "qwen": qwen, "mistral": mistral, "magistral": mistral,
	"ministral": mistral, "kimi": kimi, "seed": seed, "gemma": gemma,
}

func ofFamily(to *policy.Resolution) Dialect {
	if to.Family == "claude" {
		return claude(to)
	}
	if name, known := families[to.Family]; known {
		return must(name)
	}
	return must(vllm)
}

// untagged is a dialect for a model of a family: those whose vendors tell their thoughts apart write no tags of their own.
func untagged(d Dialect, family string) Dialect {
	switch family {
	case "claude", "gpt", "o", "gemini":
		d.Tags = nil
	}
	return d
}

// claude is the dialect of Anthropic's models. Those that decide by themselves how much they think show a summary of it.
func claude(to *policy.Resolution) Dialect {
	d := must(anthropic)
	if to.AdaptiveThinking {
		d.Shows = Summarized
	}
	return d
}
