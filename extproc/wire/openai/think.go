package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// thought is how a provider is told how hard to think.
type thought struct {
	members []Member
	slash   string // before the last text of the user
	words   string // before the system prompt
	lost    []string
}

// The members of the styles.
const (
	keyEffort   = "reasoning_effort"
	keyLevel    = "thinking_level"
	keyEnable   = "enable_thinking"
	keyBudget   = "thinking_budget"
	keyTemplate = "chat_template_kwargs"
	keyThinking = "thinking"
)

// levels are the efforts that providers of OpenRouter's object know.
var levels = []string{effortNone, "minimal", "low", "medium", "high", "xhigh"}

// think says how hard to think in the provider's own way. It says nothing where nothing was said. What would have to stand in the prompt
// is written there only where a profile says it.
func (o *RequestOptions) think(s *settled) (t thought) {
	p := &s.Params
	level, on := wire.LevelOf(p)
	switch {
	case level == "":
		return t
	case o.Reasoning == AlwaysThinking:
		t.became(level, "on")
	case o.NoEffort, o.Reasoning == PromptedReasoning:
		t.inWords(level, s.guides)
	case o.Reasoning == ReasoningEffort:
		t.effort(wire.FitEffort(o.Efforts, level), level)
	case o.Reasoning == ReasoningObject:
		o.object(&t, p, level)
	case o.Reasoning == ThinkingLevel:
		two := "high"
		if level == effortNone || level == "minimal" || level == "low" {
			two = "low"
		}
		t.say(keyLevel, `"`+two+`"`)
		t.became(level, two)
	case o.Reasoning == EnableThinking:
		t.say(keyEnable, strconv.FormatBool(on))
		if on && p.Thinking != chat.ThinkingAdaptive {
			t.say(keyBudget, strconv.Itoa(budgetOf(p)))
		}
	case o.Reasoning == TemplateThinking:
		t.say(keyTemplate, `{"`+keyEnable+`":`+strconv.FormatBool(on)+`}`)
		t.toggled(p, level)
	case o.Reasoning == ThinkingToggle:
		o.toggle(&t, p, level, on)
	case o.Reasoning == SlashThinking && !s.guides:
		t.lost = append(t.lost, keyEffort)
	case o.Reasoning == SlashThinking:
		t.slash = "/no_think "
		if on {
			t.slash = "/think "
		}
		t.toggled(p, level)
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

func (t *thought) say(key, value string) {
	t.members = append(t.members, Member{Key: key, Value: jsonx.Raw(value)})
}

// became names an effort that is said as another one.
func (t *thought) became(level, instead string) {
	if level != instead {
		t.lost = append(t.lost, wire.Became(keyEffort, level, instead))
	}
}

// toggled names an effort of which only the switch is left.
func (t *thought) toggled(p *chat.Params, level string) {
	if level != effortNone && p.Thinking != chat.ThinkingAdaptive {
		t.became(level, "on")
	}
}

// inWords asks a model in its prompt that has no parameter for it, where a profile says so. A client's parameter is left out, and named
// unless it only says what such a model does anyway.
func (t *thought) inWords(level string, guides bool) {
	if !guides {
		if level != effortNone {
			t.lost = append(t.lost, keyEffort)
		}
		return
	}
	t.words = wire.ReasoningGuidance(level)
	instead := ""
	if t.words != "" {
		instead = "prompt"
	}
	t.lost = append(t.lost, wire.Became(keyEffort, level, instead))
}

func (t *thought) effort(fitting, level string) {
	if fitting == "" {
		t.lost = append(t.lost, wire.Became(keyEffort, level, ""))
		return
	}
	t.members = append(t.members, Member{Key: keyEffort, Value: jsonx.AppendString(nil, fitting)})
	t.became(level, fitting)
}

// object says it as OpenRouter does.
func (o *RequestOptions) object(t *thought, p *chat.Params, level string) {
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
			t.lost = append(t.lost, keyEffort)
			return
		}
		value = jsonx.AppendString(append(value, `"effort":`...), fitting)
		t.became(level, fitting)
	}
	if o.ReasoningExtra != "" {
		value = append(append(value, ','), o.ReasoningExtra...)
	}
	t.members = append(t.members, Member{Key: keyReasoning, Value: append(value, '}')})
}

// toggle says it as DeepSeek does.
func (o *RequestOptions) toggle(t *thought, p *chat.Params, level string, on bool) {
	if !on {
		t.say(keyThinking, `{"type":"disabled"}`)
		return
	}
	t.say(keyThinking, `{"type":"enabled"}`)
	if len(o.Efforts) == 0 {
		t.toggled(p, level)
		return
	}
	t.effort(wire.NearestEffort(o.Efforts, level), level)
}
