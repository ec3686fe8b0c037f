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
	maxBudget      = 24576 // thinking tokens that every model with a budget takes
)

// plan settles what depends on each other: what the client and its profile ask for, and what of it the API takes.
func (w *writer) plan() {
	w.settle(w.Conv.Params)
	if w.opts.SchemaAlone && (len(w.params.Schema) > 0 || w.params.JSONMode) && slices.ContainsFunc(w.Conv.Tools, func(t chat.Tool) bool { return t.Raw == nil }) {
		w.Lose("format")
		w.params.Schema, w.params.JSONMode = nil, false
	}
	w.maxTokens = w.req.MaxTokens
	if w.maxTokens == 0 && w.req.Profile != nil {
		w.maxTokens = w.req.Profile.MaxTokens
	}
	if limit := w.opts.MaxOutput; limit > 0 && w.maxTokens > limit {
		w.Lose("max_tokens")
		w.maxTokens = limit
	}
	w.fit(&w.params)
	w.planTools()
	w.thinking = w.planThinking(&w.params)
}

// settle puts the profile behind, or over, what the client says itself, and names what of it the API has no words for. A key for the
// provider's cache is no loss to a client that did not ask for one.
func (w *writer) settle(own chat.Params) {
	said, overridden := w.req.Profile.Over(own)
	w.params = said
	for _, name := range overridden {
		w.Lose(name)
	}
	w.loseIf(own.CacheKey != "", "prompt_cache_key")
	w.loseIf(own.Predicted != "", "prediction")
	w.loseIf(own.Predicted == "" && said.Predicted != "", "predicted_output")
	w.loseIf(said.MinP != "", "min_p")
	w.loseIf(said.TEE, "tee_mode")
	functions := slices.ContainsFunc(w.Conv.Tools, func(t chat.Tool) bool { return t.Raw == nil })
	if w.opts.SchemaAlone && len(own.Schema) == 0 && len(said.Schema) > 0 && len(w.Conv.Tools) > 0 {
		w.Lose("response_schema")
		w.params.Schema = nil
	}
	if said.WebSearch != nil && *said.WebSearch {
		alone := w.opts.SchemaAlone && len(w.params.Schema) > 0
		w.searches = w.opts.WebSearch && !functions && !alone // one excludes the other
		w.loseIf(!w.searches, "web_search")
	}
}

func (w *writer) loseIf(lost bool, name string) {
	if lost {
		w.Lose(name)
	}
}

// fit takes out what the API refuses, and names it.
func (w *writer) fit(p *chat.Params) {
	if number(p.Temperature) > maxTemperature {
		w.Lose("temperature")
		p.Temperature = strconv.Itoa(maxTemperature)
	}
	if seed, err := strconv.ParseInt(p.Seed, 10, 64); p.Seed != "" && (err != nil || seed < math.MinInt32 || seed > math.MaxInt32) {
		w.Lose("seed")
		p.Seed = ""
	}
	if len(p.Stop) > maxStop {
		w.Lose("stop_sequences")
		p.Stop = p.Stop[:maxStop]
	}
	p.Stop = slices.DeleteFunc(slices.Clone(p.Stop), func(s string) bool {
		if s == "" {
			w.Lose("stop_sequences")
		}
		return s == ""
	})
	if p.User != "" {
		w.Lose("user_id")
	}
	if len(p.Schema) > 0 && !wire.Says(p.Schema, p.SchemaNote) {
		w.Lose("description")
	}
}

// planTools sees to the constraint on tools. The API checks all functions against their schemas, or none.
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

// thinkingPlan is a thinkingConfig.
type thinkingPlan struct {
	level  string
	budget int // -1: the model decides; 0 with off: none; 0: not said
	off    bool
	shown  *bool
}

// efforts are the budgets that stand for efforts.
var efforts = map[string]int{"minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// scale are the efforts, least first.
var scale = []string{"minimal", "low", "medium", "high", "xhigh", "max"}

func (w *writer) planThinking(p *chat.Params) (t thinkingPlan) {
	t.shown = p.Visible
	budget, known := p.ThinkingBudget, efforts[p.Effort] > 0
	asks := known || budget > 0 || p.Thinking == chat.ThinkingAdaptive
	off := p.Effort == "none" || p.Thinking == chat.ThinkingOff
	switch {
	case w.opts.NoThought:
		if asks || off {
			w.Lose("effort")
		}
		return thinkingPlan{}
	case off:
		return w.noThinking(p)
	case !asks:
		if p.Effort != "" {
			w.Lose("effort")
		}
		return t
	case len(w.opts.Levels) > 0:
		w.level(&t, p, known)
	case budget > 0:
		if known {
			w.Lose("effort")
		}
		t.budget = budget
		if budget > maxBudget {
			w.Lose("budget_tokens")
			t.budget = maxBudget
		}
	case known:
		t.budget = efforts[p.Effort]
	default:
		t.budget = -1
	}
	if t.shown == nil { // who asks for thinking in another dialect is shown it
		on := true
		t.shown = &on
	}
	return t
}

// level chooses the nearest of the model's levels.
func (w *writer) level(t *thinkingPlan, p *chat.Params, known bool) {
	want := p.Effort
	switch {
	case known && p.ThinkingBudget > 0:
		w.Lose("budget_tokens")
	case known:
	case p.ThinkingBudget > 0:
		want = effortOf(p.ThinkingBudget)
	default: // the model decides
		return
	}
	t.level = nearest(want, w.opts.Levels)
	if known && t.level != p.Effort {
		w.Lose("effort")
	}
}

// noThinking switches thinking off, or as far down as the model allows.
func (w *writer) noThinking(p *chat.Params) thinkingPlan {
	if p.ThinkingBudget > 0 {
		w.Lose("budget_tokens")
	}
	if len(w.opts.Levels) > 0 {
		w.Lose("effort")
		return thinkingPlan{level: w.opts.Levels[0]}
	}
	return thinkingPlan{off: true}
}

// nearest is the effort of those that is closest to one, the lower of two.
func nearest(want string, takes []string) string {
	rank := slices.Index(scale, want)
	for distance := range scale {
		for _, i := range [...]int{rank - distance, rank + distance} {
			if i >= 0 && i < len(scale) && slices.Contains(takes, scale[i]) {
				return scale[i]
			}
		}
	}
	return takes[len(takes)-1]
}

// effortOf is the effort that a budget of thinking tokens amounts to.
func effortOf(budget int) string {
	const low, medium = 2048, 8192
	switch {
	case budget <= low:
		return "low"
	case budget <= medium:
		return "medium"
	}
	return "high"
}

// appendTo writes the thinkingConfig, behind a comma.
func (t thinkingPlan) appendTo(dst []byte) []byte {
	if t.level == "" && t.budget == 0 && !t.off && t.shown == nil {
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
	if t.shown != nil {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = strconv.AppendBool(append(dst, `"includeThoughts":`...), *t.shown)
	}
	return append(dst, '}')
}

// number reads a number's text; it is validated already, and 0 when absent.
func number(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return f
}
