package gemini

import (
	"math"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Limits of the API.
const (
	maxStop        = 5
	maxTemperature = 2
	maxBudget      = 24576 // thinking tokens that every model with budgets accepts
	minBudget      = 128   // the lowest number of those that always think
)

// plan resolves parameters that depend on each other: what the client and its profile request, limited to what the API accepts.
func (w *writer) plan() {
	w.resolve(w.Conv.Params)
	if w.opts.SchemaAlone && (len(w.params.Schema) > 0 || w.params.JSONMode) && slices.ContainsFunc(w.Conv.Tools, func(t chat.Tool) bool { return t.Raw == nil }) {
		w.Degrade("format")
		w.params.Schema, w.params.JSONMode = nil, false
	}
	w.maxTokens = w.req.MaxTokens
	if w.maxTokens == 0 && w.req.Profile != nil {
		w.maxTokens = w.req.Profile.MaxTokens
	}
	if limit := w.opts.MaxOutput; limit > 0 && w.maxTokens > limit {
		w.Degrade("max_tokens")
		w.maxTokens = limit
	}
	w.fit(&w.params)
	w.planTools()
	w.thinking = w.planThinking(&w.params)
}

// resolve merges the profile into the client's parameters, and names what the API cannot express. A profile's cache key is dropped
// silently.
func (w *writer) resolve(own chat.Params) {
	merged, overridden := w.req.Profile.Over(own)
	w.params = merged
	for _, name := range overridden {
		w.Degrade(name)
	}
	w.degradeIf(own.CacheKey != "", "prompt_cache_key")
	w.degradeIf(own.Predicted != "", "prediction")
	w.degradeIf(own.Predicted == "" && merged.Predicted != "", "predicted_output")
	w.degradeIf(merged.MinP != "", "min_p")
	w.degradeIf(merged.TEE, "tee_mode")
	functions := slices.ContainsFunc(w.Conv.Tools, func(t chat.Tool) bool { return t.Raw == nil })
	if w.opts.SchemaAlone && len(own.Schema) == 0 && len(merged.Schema) > 0 && len(w.Conv.Tools) > 0 {
		w.Degrade("response_schema")
		w.params.Schema = nil
	}
	if merged.WebSearch != nil && *merged.WebSearch {
		alone := w.opts.SchemaAlone && len(w.params.Schema) > 0
		w.searches = w.opts.WebSearch && !functions && !alone // the API refuses search with functions or a schema
		w.degradeIf(!w.searches, "web_search")
	}
}

func (w *writer) degradeIf(degraded bool, name string) {
	if degraded {
		w.Degrade(name)
	}
}

// fit removes what the API refuses, and names it.
func (w *writer) fit(p *chat.Params) {
	if wire.Float(p.Temperature) > maxTemperature {
		w.Degrade("temperature")
		p.Temperature = strconv.Itoa(maxTemperature)
	}
	if seed, err := strconv.ParseInt(p.Seed, 10, 64); p.Seed != "" && (err != nil || seed < math.MinInt32 || seed > math.MaxInt32) {
		w.Degrade("seed")
		p.Seed = ""
	}
	if len(p.Stop) > maxStop {
		w.Degrade("stop_sequences")
		p.Stop = p.Stop[:maxStop]
	}
	p.Stop = slices.DeleteFunc(slices.Clone(p.Stop), func(s string) bool {
		if s == "" {
			w.Degrade("stop_sequences")
		}
		return s == ""
	})
	if p.User != "" {
		w.Degrade("user_id")
	}
	if len(p.Schema) > 0 && !wire.HasNote(p.Schema, p.SchemaNote) {
		w.Degrade("description")
	}
}

// planTools resolves strict tools: the API validates all functions against their schemas, or none.
func (w *writer) planTools() {
	w.choice = w.Conv.ToolChoice
	functions, strict := 0, 0
	for i := range w.Conv.Tools {
		if t := &w.Conv.Tools[i]; t.Raw == nil {
			functions++
			if t.Strict {
				strict++
			}
		}
	}
	w.validated = strict > 0 && strict == functions && w.choice.Mode == chat.ToolAuto
}

// thinkingPlan is the content of a thinkingConfig.
type thinkingPlan struct {
	level   string
	budget  int // tokens; -1: the model decides; 0: none with off, else unset
	off     bool
	visible *bool
}

// efforts maps efforts to budgets in tokens.
var efforts = map[string]int{"minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// effortOrder are the efforts in ascending order.
var effortOrder = []string{"minimal", "low", "medium", "high", "xhigh", "max"}

func (w *writer) planThinking(p *chat.Params) (t thinkingPlan) {
	t.visible = p.Visible
	budget, known := p.ThinkingBudget, efforts[p.Effort] > 0
	wanted := known || budget > 0 || p.Thinking == chat.ThinkingAdaptive
	off := p.Effort == "none" || p.Thinking == chat.ThinkingOff
	switch {
	case w.opts.NoThought:
		if wanted || off {
			w.Degrade("effort")
		}
		return thinkingPlan{}
	case off:
		return w.noThinking(p)
	case !wanted:
		if p.Effort != "" {
			w.Degrade("effort")
		}
		return t
	case len(w.opts.Levels) > 0:
		w.level(&t, p, known)
	case budget > 0:
		if known {
			w.Degrade("effort")
		}
		t.budget = budget
		if budget > maxBudget {
			w.Degrade("budget_tokens")
			t.budget = maxBudget
		}
	case known:
		t.budget = efforts[p.Effort]
	default:
		t.budget = -1
	}
	if t.visible == nil { // clients of other dialects that request thinking see it
		on := true
		t.visible = &on
	}
	return t
}

// level selects the nearest of the model's levels.
func (w *writer) level(t *thinkingPlan, p *chat.Params, known bool) {
	want := p.Effort
	switch {
	case known && p.ThinkingBudget > 0:
		w.Degrade("budget_tokens")
	case known:
	case p.ThinkingBudget > 0:
		want = wire.EffortOf(p.ThinkingBudget)
	default: // the model decides
		return
	}
	t.level = nearest(want, w.opts.Levels)
	if known && t.level != p.Effort {
		w.Degrade("effort")
	}
}

// noThinking disables thinking, or reduces it to the model's minimum.
func (w *writer) noThinking(p *chat.Params) thinkingPlan {
	if p.ThinkingBudget > 0 {
		w.Degrade("budget_tokens")
	}
	if len(w.opts.Levels) > 0 {
		w.Degrade("effort")
		return thinkingPlan{level: w.opts.Levels[0]}
	}
	if w.opts.Always {
		w.Degrade("effort")
		return thinkingPlan{budget: minBudget}
	}
	return thinkingPlan{off: true}
}

// nearest returns the effort that a model accepts and that is nearest to want; of two, the lower one.
func nearest(want string, takes []string) string {
	rank := slices.Index(effortOrder, want)
	for distance := range effortOrder {
		for _, i := range [...]int{rank - distance, rank + distance} {
			if i >= 0 && i < len(effortOrder) && slices.Contains(takes, effortOrder[i]) {
				return effortOrder[i]
			}
		}
	}
	return takes[len(takes)-1]
}

// appendTo writes the thinkingConfig, with a comma before it.
func (t thinkingPlan) appendTo(dst []byte) []byte {
	if t.level == "" && t.budget == 0 && !t.off && t.visible == nil {
		return dst
	}
	dst = append(dst, `,"thinkingConfig":{`...)
	start := len(dst)
	switch {
	case t.level != "":
		dst = jsonx.AppendString(append(dst, `"thinkingLevel":`...), t.level)
	case t.budget != 0 || t.off:
		dst = strconv.AppendInt(append(dst, `"thinkingBudget":`...), int64(t.budget), 10)
	}
	if t.visible != nil {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = strconv.AppendBool(append(dst, `"includeThoughts":`...), *t.visible)
	}
	return append(dst, '}')
}
