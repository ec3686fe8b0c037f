package fake

import (
	"regexp"
	"slices"
	"strings"
)

// What Anthropic's API refuses of parameters that are legal by themselves, as its documents and its own error texts have it: by model,
// and beside each other.

var (
	thoughtless  = regexp.MustCompile(`claude-(3-haiku|3-opus|3-5-)`)
	oneSampler   = regexp.MustCompile(`claude-(opus-4-[1-6]|sonnet-4-[56]|haiku-4-5)`) // temperature or top_p, not both
	adaptiveToo  = regexp.MustCompile(`claude-(opus|sonnet)-4-6`)                      // takes a budget as well
	adaptiveOnly = regexp.MustCompile(`claude-(opus-4-[78]|sonnet-5|fable-5)`)         // refuses budgets, and any sampling but the usual
	isClaude     = regexp.MustCompile(`claude-(3|opus|sonnet|haiku|fable)`)
)

// maxOutputs are the most tokens of an answer, by model; what is not listed is not checked.
var maxOutputs = []struct {
	model *regexp.Regexp
	most  float64
}{
	{regexp.MustCompile(`claude-3-haiku|claude-3-opus`), 4096},
	{regexp.MustCompile(`claude-3-5-`), 8192},
	{regexp.MustCompile(`claude-opus-4-[01]|claude-opus-4$`), 32000},
	{regexp.MustCompile(`claude-(opus-4-5|sonnet-4|haiku-4-5)`), 64000},
	{regexp.MustCompile(`claude-(opus-4-[678]|fable-5|sonnet-5)`), 128000},
}

// anthropicModel checks what only some models take.
func anthropicModel(o object) *refusal {
	model := o.str("model")
	kind := o.object("thinking").str("type")
	adaptive := kind == "adaptive"
	switch {
	case !isClaude.MatchString(model):
		return nil
	case thoughtless.MatchString(model) && (adaptive || kind == "enabled"):
		return refused("'%s' does not support thinking.", model)
	case adaptive && !adaptiveOnly.MatchString(model) && !adaptiveToo.MatchString(model):
		return refused("adaptive thinking is not supported on this model")
	case kind == "enabled" && adaptiveOnly.MatchString(model):
		return refused("\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.")
	case oneSampler.MatchString(model) && o.has("temperature") && o.has("top_p"):
		return refused("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	}
	if adaptiveOnly.MatchString(model) {
		if t, ok := o.num("temperature"); ok && t != 1 {
			return refused("`temperature` is deprecated for this model.")
		}
		if p, ok := o.num("top_p"); ok && p != 1 {
			return refused("`top_p` is deprecated for this model.")
		}
		if o.has("top_k") {
			return refused("`top_k` is deprecated for this model.")
		}
	}
	for _, m := range maxOutputs {
		if n, _ := o.num("max_tokens"); m.model.MatchString(model) {
			if n > m.most {
				return refused("max_tokens: %.0f > %.0f, which is the maximum allowed number of output tokens for %s", n, m.most, model)
			}
			break
		}
	}
	return nil
}

// anthropicMembers checks the objects that say how to think and how to answer.
func anthropicMembers(o object) *refusal {
	thinking := o.object("thinking")
	known := map[string][]string{"enabled": {"type", "budget_tokens", "display"}, "adaptive": {"type", "display"}, "disabled": {"type"}}[thinking.str("type")]
	if k := thinking.unknown(known...); k != "" && known != nil {
		return refused("thinking.%s.%s: Extra inputs are not permitted", thinking.str("type"), k)
	}
	if thinking.has("display") && !slices.Contains([]string{"summarized", "omitted"}, thinking.str("display")) {
		return refused("thinking.%s.display: Input should be 'summarized' or 'omitted'", thinking.str("type"))
	}
	config := o.object("output_config")
	if k := config.unknown("effort", "format", "task_budget"); k != "" {
		return refused("output_config.%s: Extra inputs are not permitted", k)
	}
	if config.has("effort") && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, config.str("effort")) {
		return refused("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	if f := config.object("format"); config.has("format") && (f.str("type") != "json_schema" || !f.has("schema")) {
		return refused("output_config.format: Input should be a json_schema with a schema")
	}
	for i, s := range o.strings("stop_sequences") {
		if strings.TrimSpace(s) == "" {
			return refused("stop_sequences: each stop sequence must contain non-whitespace (%d)", i)
		}
	}
	if k, ok := o.num("top_k"); ok && k < 0 {
		return refused("top_k: Input should be greater than or equal to 0")
	}
	return anthropicChoice(o)
}

// anthropicChoice checks a tool that must be used.
func anthropicChoice(o object) *refusal {
	choice := o.object("tool_choice")
	switch choice.str("type") {
	case "", "auto", "any", "none":
		return nil
	case "tool":
	default:
		return refused("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'any', 'auto', 'none', 'tool'", choice.str("type"))
	}
	for _, t := range o.list("tools") {
		if t.str("name") == choice.str("name") {
			return nil
		}
	}
	return refused("tool_choice.tool.name: Tool '%s' not found in provided tools", choice.str("name"))
}

// anthropicPrefill: with thinking on, an answer cannot be begun for the model.
func anthropicPrefill(o object) *refusal {
	kind := o.object("thinking").str("type")
	ms := o.list("messages")
	if (kind == "enabled" || kind == "adaptive") && len(ms) > 0 && ms[len(ms)-1].str("role") == "assistant" {
		return refused("Your API request included an `assistant` message in the final position, which would pre-fill the assistant response. When using thinking, pre-filling the assistant response is not supported.")
	}
	return nil
}

// cacheMarks checks every mark of a request's blocks.
func cacheMarks(blocks []object, at string) (n int, e *refusal) {
	for i, b := range blocks {
		if b.has("cache_control") {
			n++
			mark := b.object("cache_control")
			switch {
			case mark.str("type") != "ephemeral":
				return n, refused("%s.%d.cache_control: Input tag '%s' found using 'type' does not match any of the expected tags: 'ephemeral'", at, i, mark.str("type"))
			case mark.has("ttl") && mark.str("ttl") != "5m" && mark.str("ttl") != "1h":
				return n, refused("%s.%d.cache_control.ephemeral.ttl: Input should be '5m' or '1h'", at, i)
			case b.str("type") == "text" && b.str("text") == "":
				return n, refused("%s.%d.cache_control: cache_control cannot be set for empty text blocks", at, i)
			}
		}
		inner, e := cacheMarks(b.list("content"), at)
		if n += inner; e != nil {
			return n, e
		}
	}
	return n, nil
}
