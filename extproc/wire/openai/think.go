package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// thinkingControl is how a request controls thinking.
type thinkingControl struct {
	members  []Member
	slash    string // text before the last text of the user
	prompt   string // text before the system prompt
	degraded []string
}

// The members that control thinking, by provider.
const (
	keyEffort   = "reasoning_effort"
	keyLevel    = "thinking_level"
	keyEnable   = "enable_thinking"
	keyBudget   = "thinking_budget"
	keyTemplate = "chat_template_kwargs"
	keyThinking = "thinking"
)

// levels are the efforts that providers of OpenRouter's object accept.
var levels = []string{effortNone, "minimal", "low", "medium", "high", "xhigh"}

// think expresses the request's thinking parameters in the provider's own way; nothing if it has none. Text is added to the prompt for
// profiles only.
func (o *RequestOptions) think(s *resolvedParams) (t thinkingControl) {
	p := &s.Params
	level, on := wire.LevelOf(p)
	switch {
	case level == "":
		return t
	case o.Reasoning == AlwaysThinking:
		t.replaced(level, "on")
	case o.NoEffort, o.Reasoning == PromptedReasoning:
		t.inPrompt(level, s.mayPrompt)
	case o.Reasoning == ReasoningEffort:
		t.effort(wire.FitEffort(o.Efforts, level), level)
	case o.Reasoning == ReasoningObject:
		o.object(&t, p, level)
	case o.Reasoning == ThinkingLevel:
		two := "high"
		if level == effortNone || level == "minimal" || level == "low" {
			two = "low"
		}
		t.set(keyLevel, `"`+two+`"`)
		t.replaced(level, two)
	case o.Reasoning == EnableThinking:
		t.set(keyEnable, strconv.FormatBool(on))
		if on && p.Thinking != chat.ThinkingAdaptive {
			t.set(keyBudget, strconv.Itoa(budgetOf(p)))
		}
	case o.Reasoning == TemplateThinking:
		t.set(keyTemplate, `{"`+keyEnable+`":`+strconv.FormatBool(on)+`}`)
		t.reduced(p, level)
	case o.Reasoning == ThinkingToggle:
		o.toggle(&t, p, level, on)
	case o.Reasoning == SlashThinking && !s.mayPrompt:
		t.degraded = append(t.degraded, keyEffort)
	case o.Reasoning == SlashThinking:
		t.slash = "/no_think "
		if on {
			t.slash = "/think "
		}
		t.reduced(p, level)
	}
	return t
}

func budgetOf(p *chat.Params) int {
	if p.ThinkingBudget > 0 {
		return p.ThinkingBudget
	}
	if n := wire.Budgets[p.Effort]; n > 0 {
		return n
	}
	return wire.Budgets["medium"]
}

func (t *thinkingControl) set(key, value string) {
	t.members = append(t.members, Member{Key: key, Value: jsonx.Raw(value)})
}

// replaced names an effort that is replaced by another one.
func (t *thinkingControl) replaced(level, instead string) {
	if level != instead {
		t.degraded = append(t.degraded, wire.Replaced(keyEffort, level, instead))
	}
}

// reduced names an effort of which only on or off is sent.
func (t *thinkingControl) reduced(p *chat.Params, level string) {
	if level != effortNone && p.Thinking != chat.ThinkingAdaptive {
		t.replaced(level, "on")
	}
}

// inPrompt expresses an effort in the prompt, for a model without a parameter for it and a request whose profile allows that. A client's
// own effort is dropped, and named as degraded unless it is none.
func (t *thinkingControl) inPrompt(level string, guides bool) {
	if !guides {
		if level != effortNone {
			t.degraded = append(t.degraded, keyEffort)
		}
		return
	}
	t.prompt = wire.ReasoningGuidance(level)
	instead := ""
	if t.prompt != "" {
		instead = "prompt"
	}
	t.degraded = append(t.degraded, wire.Replaced(keyEffort, level, instead))
}

func (t *thinkingControl) effort(fitting, level string) {
	if fitting == "" {
		t.degraded = append(t.degraded, wire.Replaced(keyEffort, level, ""))
		return
	}
	t.members = append(t.members, Member{Key: keyEffort, Value: jsonx.AppendString(nil, fitting)})
	t.replaced(level, fitting)
}

// object uses OpenRouter's object.
func (o *RequestOptions) object(t *thinkingControl, p *chat.Params, level string) {
	value := []byte(`{`)
	switch {
	case p.Effort == "" && p.ThinkingBudget > 0 && !o.EffortOnly:
		value = strconv.AppendInt(append(value, `"max_tokens":`...), int64(p.ThinkingBudget), 10)
	case p.Effort == "" && p.Thinking == chat.ThinkingAdaptive && !o.EffortOnly:
		value = append(value, `"enabled":true`...)
	default:
		takes := o.Efforts
		if takes == nil {
			takes = levels
		}
		fitting := wire.NearestEffort(takes, level)
		if fitting == "" {
			t.degraded = append(t.degraded, keyEffort)
			return
		}
		value = jsonx.AppendString(append(value, `"effort":`...), fitting)
		t.replaced(level, fitting)
	}
	if o.ReasoningExtra != "" {
		value = append(append(value, ','), o.ReasoningExtra...)
	}
	t.members = append(t.members, Member{Key: keyReasoning, Value: append(value, '}')})
}

// toggle uses DeepSeek's switch.
func (o *RequestOptions) toggle(t *thinkingControl, p *chat.Params, level string, on bool) {
	if !on {
		t.set(keyThinking, `{"type":"disabled"}`)
		return
	}
	t.set(keyThinking, `{"type":"enabled"}`)
	if len(o.Efforts) == 0 {
		t.reduced(p, level)
		return
	}
	t.effort(wire.NearestEffort(o.Efforts, level), level)
}
