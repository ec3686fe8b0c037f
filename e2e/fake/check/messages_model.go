package check

import (
	"regexp"
	"slices"
	"strings"
)

// What Anthropic's API refuses of parameters that are legal by themselves, as its documents and its own error texts have it: by model,
// and beside each other.

var (
	thoughtless  = regexp.MustCompile(`claude-(3-haiku|3-opus|3-5-)`)
	oneSampler   = regexp.MustCompile(`claude-(opus-4-[1-6]|sonnet-4-[56]|haiku-4-5)`)        // temperature or top_p, not both
	adaptiveToo  = regexp.MustCompile(`claude-(opus|sonnet)-4-6`)                             // takes a budget as well
	adaptiveOnly = regexp.MustCompile(`claude-(opus-4-[78]|opus-5|sonnet-5|haiku-5|fable-5)`) // refuses budgets, and any sampling but the usual
	alwaysThinks = regexp.MustCompile(`claude-(opus-5-5|sonnet-5-5|fable-5)`)
	thinksHard   = regexp.MustCompile(`claude-opus-5($|[^-])`) // thinking cannot be off at the highest efforts
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
	{regexp.MustCompile(`claude-(opus-4-[678]|opus-5|fable-5|sonnet-5|haiku-5)`), 128000},
}

// anthropicModel checks what only some models take.
func anthropicModel(o object) *Refusal {
	model := o.Str("model")
	kind := o.Object("thinking").Str("type")
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
	case kind == "disabled" && alwaysThinks.MatchString(model):
		return refused("\"thinking.type.disabled\" is not supported for this model.")
	case kind == "disabled" && thinksHard.MatchString(model) && slices.Contains([]string{"xhigh", "max"}, o.Object("output_config").Str("effort")):
		return refused("\"thinking.type.disabled\" is not supported with \"output_config.effort\" above \"high\" for this model.")
	case oneSampler.MatchString(model) && o.Has("temperature") && o.Has("top_p"):
		return refused("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	}
	if adaptiveOnly.MatchString(model) {
		if t, ok := o.Num("temperature"); ok && t != 1 {
			return refused("`temperature` is deprecated for this model.")
		}
		if p, ok := o.Num("top_p"); ok && p != 1 {
			return refused("`top_p` is deprecated for this model.")
		}
		if o.Has("top_k") {
			return refused("`top_k` is deprecated for this model.")
		}
	}
	for _, m := range maxOutputs {
		if n, _ := o.Num("max_tokens"); m.model.MatchString(model) {
			if n > m.most {
				return refused("max_tokens: %.0f > %.0f, which is the maximum allowed number of output tokens for %s", n, m.most, model)
			}
			break
		}
	}
	return nil
}

// anthropicMembers checks the objects that say how to think and how to answer.
func anthropicMembers(o object) *Refusal {
	thinking := o.Object("thinking")
	known := map[string][]string{"enabled": {"type", "budget_tokens", "display"}, "adaptive": {"type", "display"}, "disabled": {"type"}}[thinking.Str("type")]
	if k := thinking.Unknown(known...); k != "" && known != nil {
		return refused("thinking.%s.%s: Extra inputs are not permitted", thinking.Str("type"), k)
	}
	if thinking.Has("display") && !slices.Contains([]string{"summarized", "omitted"}, thinking.Str("display")) {
		return refused("thinking.%s.display: Input should be 'summarized' or 'omitted'", thinking.Str("type"))
	}
	config := o.Object("output_config")
	if k := config.Unknown("effort", "format", "task_budget"); k != "" {
		return refused("output_config.%s: Extra inputs are not permitted", k)
	}
	if config.Has("effort") && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, config.Str("effort")) {
		return refused("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	if f := config.Object("format"); config.Has("format") && (f.Str("type") != "json_schema" || !f.Has("schema")) {
		return refused("output_config.format: Input should be a json_schema with a schema")
	}
	for i, s := range o.Strings("stop_sequences") {
		if strings.TrimSpace(s) == "" {
			return refused("stop_sequences: each stop sequence must contain non-whitespace (%d)", i)
		}
	}
	if k, ok := o.Num("top_k"); ok && k < 0 {
		return refused("top_k: Input should be greater than or equal to 0")
	}
	return anthropicChoice(o)
}

// anthropicChoice checks a tool that must be used.
func anthropicChoice(o object) *Refusal {
	choice := o.Object("tool_choice")
	switch choice.Str("type") {
	case "", "auto", "any", "none":
		return nil
	case "tool":
	default:
		return refused("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'any', 'auto', 'none', 'tool'", choice.Str("type"))
	}
	for _, t := range o.List("tools") {
		if t.Str("name") == choice.Str("name") {
			return nil
		}
	}
	return refused("tool_choice.tool.name: Tool '%s' not found in provided tools", choice.Str("name"))
}

// anthropicPrefill: with thinking on, an answer cannot be begun for the model.
func anthropicPrefill(o object) *Refusal {
	kind := o.Object("thinking").Str("type")
	ms := o.List("messages")
	if (kind == "enabled" || kind == "adaptive") && len(ms) > 0 && ms[len(ms)-1].Str("role") == "assistant" {
		return refused("Your API request included an `assistant` message in the final position, which would pre-fill the assistant response. When using thinking, pre-filling the assistant response is not supported.")
	}
	return nil
}

// cacheMarks checks every mark of a request's blocks.
func cacheMarks(blocks []object, at string) (n int, e *Refusal) {
	for i, b := range blocks {
		if b.Has("cache_control") {
			n++
			mark := b.Object("cache_control")
			switch {
			case mark.Str("type") != "ephemeral":
				return n, refused("%s.%d.cache_control: Input tag '%s' found using 'type' does not match any of the expected tags: 'ephemeral'", at, i, mark.Str("type"))
			case mark.Has("ttl") && mark.Str("ttl") != "5m" && mark.Str("ttl") != "1h":
				return n, refused("%s.%d.cache_control.ephemeral.ttl: Input should be '5m' or '1h'", at, i)
			case b.Str("type") == "text" && b.Str("text") == "":
				return n, refused("%s.%d.cache_control: cache_control cannot be set for empty text blocks", at, i)
			}
		}
		inner, e := cacheMarks(b.List("content"), at)
		if n += inner; e != nil {
			return n, e
		}
	}
	return n, nil
}
