package responses

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// minOutput is OpenAI's minimum limit of an answer in tokens.
const minOutput = 16

// resolve merges the profile into the client's parameters, and names what the format cannot express.
func (w *writer) resolve() {
	own := w.Conv.Params
	merged, overridden := w.req.Profile.Over(own)
	for _, name := range overridden {
		if name == "effort" {
			name = "reasoning_effort"
		}
		w.DegradeAs(name)
	}
	w.byProfile = merged.Effort != own.Effort || merged.ThinkingBudget != own.ThinkingBudget || merged.Thinking != own.Thinking
	sampled, degraded := wire.ApproximateSampling(own, merged, false, false, !w.opts.fixed(merged.Effort))
	for _, name := range degraded {
		w.DegradeAs(name)
	}
	w.params = sampled
	if merged.Predicted != own.Predicted {
		w.DegradeAs("predicted_output")
	}
	if merged.WebSearch != nil && *merged.WebSearch {
		w.DegradeAs("web_search")
	}
	if merged.TEE {
		w.DegradeAs("tee_mode")
	}
	if level, _ := wire.LevelOf(&merged); w.byProfile && !w.takesEffort() && level != "" {
		w.askInPrompt(level, w.req.Profile.Guides(&own))
	}
}

// askInPrompt requests thinking in the instructions, for a model without a parameter for it.
func (w *writer) askInPrompt(level string, mayPrompt bool) {
	if !mayPrompt {
		if level != wire.EffortNone {
			w.DegradeAs("reasoning_effort")
		}
		return
	}
	instead := ""
	if w.guidance = wire.ReasoningGuidance(level); w.guidance != "" {
		instead = "prompt"
	}
	w.DegradeAs(wire.Replaced("reasoning_effort", level, instead))
}

// fixed reports whether the model refuses sampling parameters at this effort.
func (o *RequestOptions) fixed(effort string) bool {
	return o.FixedSampling || o.Reasons && (effort != wire.EffortNone || !slices.Contains(o.Efforts, wire.EffortNone))
}

// takesEffort reports whether the model accepts an effort, as far as it is known.
func (w *writer) takesEffort() bool { return w.opts.Reasons || w.opts.Unknown }

// tools writes the functions and the tool choice.
func (w *writer) tools() {
	if w.Functions(w.Conv.Tools, w.function) {
		w.ToolChoice(`{"type":"function","name":`, "}")
	}
}

// function writes a function. In this format, a function without "strict" is strict.
func (w *writer) function(t *chat.Tool) {
	w.Element()
	w.Raw(`{"type":"function","name":`)
	w.FunctionHead(t)
	strict := t.Strict && wire.Enforceable(jsonx.Value{Raw: t.Schema}, wire.ByOpenAI)
	if t.Strict && !strict {
		w.Degrade("strict")
	}
	w.Key("strict")
	w.Boolean(strict)
	w.Raw("}")
	if t.CacheControl != nil {
		w.Degrade("cache_control")
	}
}

func (w *writer) writeParams() {
	p := &w.params
	w.limit()
	w.sampling(p)
	w.think(p)
	w.format(p)
	if p.ServiceTier == chat.TierStandard {
		w.Raw(`,"service_tier":"default"`)
	}
	w.EndUser(p.User)
	if p.CacheKey != "" {
		w.Key("prompt_cache_key")
		w.Str(p.CacheKey)
	}
}

// limit writes the limit of the answer. A limit below the API's minimum is raised to it.
func (w *writer) limit() {
	n := w.req.MaxTokens
	if n == 0 && w.req.Profile != nil {
		n = w.req.Profile.MaxTokens
	}
	if n == 0 {
		return
	}
	if n < minOutput {
		n = minOutput
		w.Degrade("max_tokens")
	}
	w.Key("max_output_tokens")
	w.Integer(n)
}

// sampling writes the sampling parameters that the format has. For a model that refuses them, defaults are dropped silently.
func (w *writer) sampling(p *chat.Params) {
	fixed := w.opts.fixed(p.Effort)
	for _, n := range samplingParams {
		switch text := *n.at(p); {
		case text == "":
		case !fixed:
			w.Key(n.key)
			w.Raw(text)
		case strings.TrimSuffix(text, ".0") != "1":
			w.Degrade(n.key)
		}
	}
	own := &w.Conv.Params
	w.reportDropped("top_k", own.TopK, p.TopK)
	w.reportDropped("min_p", own.MinP, p.MinP)
	w.reportDropped("presence_penalty", own.PresencePenalty, nonZero(p.PresencePenalty))
	w.reportDropped("frequency_penalty", own.FrequencyPenalty, nonZero(p.FrequencyPenalty))
	w.reportDropped("seed", own.Seed, p.Seed)
	w.reportDropped("stop_sequences", strings.Join(own.Stop, ""), strings.Join(p.Stop, ""))
	if w.req.Choices > 1 {
		w.Degrade("n")
	}
}

// nonZero returns a penalty's text; "" for zero.
func nonZero(text string) string {
	if strings.TrimSuffix(text, ".0") == "0" {
		return ""
	}
	return text
}

// reportDropped names a parameter that the format lacks, by the client's name if the client set it.
func (w *writer) reportDropped(name, own, wanted string) {
	switch {
	case wanted == "":
	case own != "":
		w.Degrade(name)
	default:
		w.DegradeAs(name)
	}
}

// think writes the effort, and requests a summary of the reasoning, which clients of other dialects that request thinking see.
func (w *writer) think(p *chat.Params) {
	effort := w.effort(p)
	shown := w.showsThinking(p)
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

// showsThinking reports whether a summary of the reasoning is requested.
func (w *writer) showsThinking(p *chat.Params) bool {
	level, on := wire.LevelOf(p)
	requested := level != "" && on
	visible := requested
	if p.Visible != nil {
		visible = *p.Visible && (requested || w.opts.Reasons)
	}
	switch {
	case !visible || !on || !w.takesEffort():
		return false
	case w.opts.NoSummary:
		w.Degrade("thinking")
		return false
	}
	return true
}

// seals reports whether encrypted reasoning is requested, to be sent back later.
func (w *writer) seals() bool {
	level, on := wire.LevelOf(&w.params)
	return w.opts.Reasons && on || w.opts.Unknown && level != "" && on
}

// effort returns the effort to send; "" for none.
func (w *writer) effort(p *chat.Params) string {
	if w.byProfile {
		return w.profileEffort(p)
	}
	return w.Effort(p, w.takesEffort(), w.opts.Efforts)
}

// profileEffort returns the effort of a profile. If another one is sent, it is named with its replacement.
func (w *writer) profileEffort(p *chat.Params) string {
	level, _ := wire.LevelOf(p)
	if level == "" || !w.takesEffort() { // expressed in the prompt, see resolve
		return ""
	}
	fitting := wire.FitEffort(w.opts.Efforts, level)
	if fitting != level {
		w.DegradeAs(wire.Replaced("reasoning_effort", level, fitting))
	}
	return fitting
}

// format writes the format of the answer.
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
		w.Degrade("format")
	default:
		w.DegradeAs("response_schema")
	}
}
