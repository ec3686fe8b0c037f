package responses

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

const (
	// maxUser is how long OpenAI lets a user's name be.
	maxUser = 64

	// leastOutput is the smallest limit of an answer that OpenAI takes, in tokens.
	leastOutput = 16
)

// settle puts the profile behind, or over, what the client says itself, and names what of it the format has no words for.
func (w *writer) settle() {
	own := w.Conv.Params
	said, overridden := w.req.Profile.Over(own)
	for _, name := range overridden {
		if name == "effort" {
			name = "reasoning_effort"
		}
		w.Name(name)
	}
	w.profiled = said.Effort != own.Effort || said.ThinkingBudget != own.ThinkingBudget || said.Thinking != own.Thinking
	drawn, lost := wire.Draws(own, said, false, false, !w.opts.fixed(said.Effort))
	for _, name := range lost {
		w.Name(name)
	}
	w.said = drawn
	if said.Predicted != own.Predicted {
		w.Name("predicted_output")
	}
	if said.WebSearch != nil && *said.WebSearch {
		w.Name("web_search")
	}
	if said.TEE {
		w.Name("tee_mode")
	}
	if level, _ := wire.LevelOf(&said); w.profiled && !w.takesEffort() && level != "" {
		w.inWords(level, w.req.Profile.Guides(&own))
	}
}

// inWords asks a model in its instructions that has no parameter for it.
func (w *writer) inWords(level string, guides bool) {
	if !guides {
		if level != wire.EffortNone {
			w.Name("reasoning_effort")
		}
		return
	}
	instead := ""
	if w.words = wire.ReasoningGuidance(level); w.words != "" {
		instead = "prompt"
	}
	w.Name(wire.Became("reasoning_effort", level, instead))
}

// fixed reports whether the model takes no word about sampling when it is told to think so hard.
func (o *RequestOptions) fixed(effort string) bool {
	return o.FixedSampling || o.Reasons && (effort != wire.EffortNone || !slices.Contains(o.Efforts, wire.EffortNone))
}

// takesEffort reports whether the model is told how hard to think by an effort, for all that anybody knows.
func (w *writer) takesEffort() bool { return w.opts.Reasons || w.opts.Unknown }

// tools writes the functions; tools that run at the other dialect's provider cannot be said. Here, what says nothing is strict.
func (w *writer) tools() {
	functions := 0
	for i := range w.Conv.Tools {
		if t := &w.Conv.Tools[i]; t.Raw != nil {
			kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
			w.Name(kind)
			continue
		}
		functions++
	}
	if functions == 0 {
		if mode := w.Conv.ToolChoice.Mode; mode == chat.ToolAny || mode == chat.ToolNamed {
			w.Lose("tool_choice")
		}
		return
	}
	w.Key("tools")
	w.OpenArray()
	for i := range w.Conv.Tools {
		if t := &w.Conv.Tools[i]; t.Raw == nil {
			w.function(t)
		}
	}
	w.Raw("]")
	w.choice()
	if p := w.Conv.ParallelTools; p != nil {
		w.Key("parallel_tool_calls")
		w.boolean(*p)
	}
}

func (w *writer) function(t *chat.Tool) {
	w.Element()
	w.Raw(`{"type":"function","name":`)
	w.Str(wire.ToolName(t.Name))
	if t.Description != "" {
		w.Key("description")
		w.Str(t.Description)
	}
	w.Key("parameters")
	if len(t.Schema) > 0 {
		w.JSON(t.Schema)
	} else {
		w.Raw(`{"type":"object","properties":{}}`)
	}
	strict := t.Strict && wire.Enforceable(jsonx.Value{Raw: t.Schema}, wire.ByOpenAI)
	if t.Strict && !strict {
		w.Lose("strict")
	}
	w.Key("strict")
	w.boolean(strict)
	w.Raw("}")
	if t.CacheControl != nil {
		w.Lose("cache_control")
	}
}

func (w *writer) choice() {
	switch choice := w.Conv.ToolChoice; choice.Mode {
	case chat.ToolAuto:
	case chat.ToolNone:
		w.Raw(`,"tool_choice":"none"`)
	case chat.ToolAny:
		w.Raw(`,"tool_choice":"required"`)
	case chat.ToolNamed:
		if slices.ContainsFunc(w.Conv.Tools, func(t chat.Tool) bool { return t.Name == choice.Name && t.Raw != nil }) {
			w.Lose("tool_choice")
			return
		}
		w.Raw(`,"tool_choice":{"type":"function","name":`)
		w.Str(wire.ToolName(choice.Name))
		w.Raw("}")
	}
}

func (w *writer) params() {
	p := &w.said
	w.limit()
	w.sampling(p)
	w.think(p)
	w.format(p)
	if p.ServiceTier == chat.TierStandard {
		w.Raw(`,"service_tier":"default"`)
	}
	switch name := p.User; {
	case name == "":
	case len(name) > maxUser:
		w.Lose("user_id")
	default:
		w.Key("user")
		w.Str(name)
	}
	if p.CacheKey != "" {
		w.Key("prompt_cache_key")
		w.Str(p.CacheKey)
	}
}

// limit writes how long the answer may be. A limit that the API would refuse is raised to its least.
func (w *writer) limit() {
	n := w.req.MaxTokens
	if n == 0 && w.req.Profile != nil {
		n = w.req.Profile.MaxTokens
	}
	if n == 0 {
		return
	}
	if n < leastOutput {
		n = leastOutput
		w.Lose("max_tokens")
	}
	w.Key("max_output_tokens")
	w.Integer(n)
}

// sampling writes how the model draws its words, as far as the format has words for it and the model takes any but the usual.
func (w *writer) sampling(p *chat.Params) {
	fixed := w.opts.fixed(p.Effort)
	for _, n := range drawn {
		switch text := *n.at(p); {
		case text == "":
		case !fixed:
			w.Key(n.key)
			w.Raw(text)
		case strings.TrimSuffix(text, ".0") != "1":
			w.Lose(n.key)
		}
	}
	own := &w.Conv.Params
	w.reportDropped("top_k", own.TopK, p.TopK)
	w.reportDropped("min_p", own.MinP, p.MinP)
	w.reportDropped("presence_penalty", own.PresencePenalty, unusual(p.PresencePenalty))
	w.reportDropped("frequency_penalty", own.FrequencyPenalty, unusual(p.FrequencyPenalty))
	w.reportDropped("seed", own.Seed, p.Seed)
	w.reportDropped("stop_sequences", strings.Join(own.Stop, ""), strings.Join(p.Stop, ""))
	if w.req.Choices > 1 {
		w.Lose("n")
	}
}

// unusual is a penalty's text; "" for none at all.
func unusual(text string) string {
	if strings.TrimSuffix(text, ".0") == "0" {
		return ""
	}
	return text
}

// reportDropped names a parameter that the format lacks, as a loss of the client's own if the client set it.
func (w *writer) reportDropped(name, own, said string) {
	switch {
	case said == "":
	case own != "":
		w.Lose(name)
	default:
		w.Name(name)
	}
}

func (w *writer) boolean(on bool) {
	if on {
		w.Raw("true")
	} else {
		w.Raw("false")
	}
}

// think writes how hard to think, and that what was thought is to be told. Who asks for thinking in another dialect is shown it.
func (w *writer) think(p *chat.Params) {
	effort := w.effort(p)
	shown := w.shows(p)
	if effort == "" && !shown {
		return
	}
	w.Raw(`,"reasoning":{`)
	if effort != "" {
		w.Raw(`"effort":`)
		w.Str(effort)
	}
	if shown {
		if effort != "" {
			w.Raw(",")
		}
		w.Raw(`"summary":"auto"`)
	}
	w.Raw("}")
}

// shows reports whether the model is to summarise what it thinks.
func (w *writer) shows(p *chat.Params) bool {
	level, on := wire.LevelOf(p)
	asks := level != "" && on
	wanted := asks
	if p.Visible != nil {
		wanted = *p.Visible && (asks || w.opts.Reasons)
	}
	switch {
	case !wanted || !on || !w.takesEffort():
		return false
	case w.opts.NoSummary:
		w.Lose("thinking")
		return false
	}
	return true
}

// seals reports whether the model's reasoning is to come encrypted, so that it can be given back.
func (w *writer) seals() bool {
	level, on := wire.LevelOf(&w.said)
	return w.opts.Reasons && on || w.opts.Unknown && level != "" && on
}

// effort is how hard to think, as the model takes it; "" where it is told nothing.
func (w *writer) effort(p *chat.Params) string {
	switch {
	case w.profiled:
		return w.profileEffort(p)
	case !w.takesEffort():
		if p.ThinkingBudget > 0 || p.Thinking == chat.ThinkingAdaptive {
			w.Lose("thinking")
		}
		if p.Effort != "" && p.Effort != wire.EffortNone {
			w.Lose("effort")
		}
		return ""
	}
	effort := p.Effort
	switch {
	case effort != "" && p.ThinkingBudget > 0:
		w.Lose("budget_tokens")
	case effort == "" && p.ThinkingBudget > 0:
		effort = wire.EffortOf(p.ThinkingBudget)
	case effort == "" && p.Thinking == chat.ThinkingOff && slices.Contains(w.opts.Efforts, wire.EffortNone):
		effort = wire.EffortNone
	}
	if p.Thinking == chat.ThinkingOff && effort != wire.EffortNone {
		w.Lose("thinking")
	}
	fitting := wire.FitEffort(w.opts.Efforts, effort)
	if fitting != effort {
		w.Lose("effort")
	}
	return fitting
}

// profileEffort is the same of a profile, whose losses are named by what became of them.
func (w *writer) profileEffort(p *chat.Params) string {
	level, _ := wire.LevelOf(p)
	if level == "" || !w.takesEffort() { // said in words, see settle
		return ""
	}
	fitting := wire.FitEffort(w.opts.Efforts, level)
	if fitting != level {
		w.Name(wire.Became("reasoning_effort", level, fitting))
	}
	return fitting
}

// format writes the form of the answer's text.
func (w *writer) format(p *chat.Params) {
	switch {
	case p.JSONMode:
		w.Raw(`,"text":{"format":{"type":"` + wire.JSONObject + `"}}`)
		return
	case len(p.Schema) == 0:
		return
	}
	value, enforced := format(p)
	w.Raw(`,"text":{"format":`)
	w.JSON(value)
	w.Raw("}")
	switch {
	case enforced, p.SchemaLoose:
	case len(w.Conv.Params.Schema) > 0:
		w.Lose("format")
	default:
		w.Name("response_schema")
	}
}
