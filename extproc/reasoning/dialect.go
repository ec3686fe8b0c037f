package reasoning

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Dialect describes how a provider or model returns reasoning. Reasoning in separate fields is parsed by the decoders in extproc/wire;
// reasoning in tags within the text by a Reader.
type Dialect struct {
	Name           string
	Tags           []Tags     // tags around reasoning in the text; none if there are none
	Visibility     Visibility // of the reasoning text, if the answer has any
	BilledAsOutput bool       // the provider reports reasoning only as part of the output tokens
	Discount       float64    // factor on the price of reasoning tokens; 1 for all dialects today
}

// The names of dialects in model catalogs and the configuration.
const (
	Auto       = "auto" // by provider, model family and API format
	Off        = "none" // no reasoning in the answer
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

var thinkOnly = []Tags{thinkTags}

// dialects are all dialects.
//
//	dialect     fields with reasoning                 decoder
//	anthropic   content blocks, signed or redacted     wire/anthropic
//	openai      usage counts; text is not shown        wire/openai
//	responses   reasoning items, both event families   wire/responses
//	gemini      parts with thought: true, and counts   wire/gemini
//	openrouter  reasoning_details, reasoning           wire/openai
//	mistral     typed parts of content                 wire/openai
//	others      reasoning_content, reasoning           wire/openai
var dialects = []Dialect{
	{Name: Off, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: anthropic, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: openAI, Visibility: Visible, Discount: 1},
	{Name: responses, Visibility: Summarized, Discount: 1},
	{Name: gemini, Visibility: Summarized, Discount: 1},
	{Name: deepSeek, Tags: thinkOnly, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: qwen, Tags: thinkOnly, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: openRouter, Tags: thinkOnly, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: venice, Tags: thinkOnly, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: vllm, Tags: thinkOnly, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: mistral, Tags: []Tags{mistralTags, thinkTags}, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: kimi, Tags: []Tags{kimiTags, thinkTags}, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: seed, Tags: []Tags{seedTags}, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: gemma, Tags: []Tags{gemmaTags}, Visibility: Visible, BilledAsOutput: true, Discount: 1},
	{Name: tagged, Tags: allTags(), Visibility: Visible, BilledAsOutput: true, Discount: 1},
}

func allTags() []Tags {
	return append([]Tags{thinkTags, mistralTags, kimiTags, seedTags, gemmaTags}, promptedTags...)
}

// Names are the dialects that a model can be configured with, besides Auto.
func Names() []string {
	names := make([]string, len(dialects))
	for i := range dialects {
		names[i] = dialects[i].Name
	}
	return names
}

func byName(name string) (Dialect, bool) {
	i := slices.IndexFunc(dialects, func(d Dialect) bool { return d.Name == name })
	if i < 0 {
		return Dialect{}, false
	}
	return dialects[i], true
}

// mustByName returns a dialect that exists.
func mustByName(name string) Dialect {
	d, _ := byName(name)
	return d
}

// Of returns the dialect of a model's answers: the one that the catalog names, else that of the provider's kind (own), the API format and
// the model's family.
func Of(own kind.Reasoning, to *policy.Resolution, format chat.Dialect) Dialect {
	if d, known := byName(to.Reasoning); known {
		return d
	}
	d, known := byName(own.Dialect)
	switch {
	case format == chat.Responses:
		return mustByName(responses)
	case format == chat.Gemini:
		return mustByName(gemini)
	case own.Vendors != nil:
		return ofVendor(withoutTags(d, to.Family), own.Vendors, to.Upstream)
	case d.Name == anthropic, format == chat.Anthropic && to.Family == "claude":
		return claude(to)
	case known:
		return withoutTags(d, to.Family)
	}
	return ofFamily(to)
}

// ofVendor returns the dialect of a model at a marketplace: tags and visibility are those of the vendor's models.
func ofVendor(d Dialect, vendors map[string]string, upstream string) Dialect {
	vendor, _, _ := strings.Cut(upstream, "/")
	if by, known := byName(vendors[vendor]); known {
		d.Visibility, d.Tags = by.Visibility, by.Tags
	}
	return d
}

// families are the dialects of open models by family. Models of other families use a field or <think> tags, depending on the server.
var families = map[string]string{
	"gpt": openAI, "o": openAI, "gemini": gemini, "deepseek": deepSeek, "qwen": qwen, "mistral": mistral, "magistral": mistral,
	"ministral": mistral, "kimi": kimi, "seed": seed, "gemma": gemma,
}

func ofFamily(to *policy.Resolution) Dialect {
	if to.Family == "claude" {
		return claude(to)
	}
	if name, known := families[to.Family]; known {
		return mustByName(name)
	}
	return mustByName(vllm)
}

// withoutTags removes the tags for families whose vendors return reasoning in separate fields.
func withoutTags(d Dialect, family string) Dialect {
	switch family {
	case "claude", "gpt", "o", "gemini":
		d.Tags = nil
	}
	return d
}

// claude is the dialect of Anthropic's models. Those with adaptive thinking return a summary.
func claude(to *policy.Resolution) Dialect {
	d := mustByName(anthropic)
	if to.AdaptiveThinking {
		d.Visibility = Summarized
	}
	return d
}
