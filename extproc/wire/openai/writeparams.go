package openai

import (
	"cmp"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// tools writes the functions and the tool choice.
func (w *writer) tools() {
	if w.Functions(w.Conv.Tools, w.tool) {
		w.ToolChoice(`{"type":"function","function":{"name":`, "}}")
	}
}

func (w *writer) tool(t *chat.Tool) {
	w.Element()
	w.Raw(`{"type":"function","function":{"name":`)
	w.FunctionHead(t)
	switch {
	case !t.Strict:
	case wire.Enforceable(jsonx.Value{Raw: t.Schema}, wire.ByOpenAI):
		w.Raw(`,"strict":true`)
	default:
		w.Degrade("strict")
	}
	w.Raw("}")
	w.mark(t.CacheControl)
	w.Raw("}")
}

func (w *writer) params() {
	p := &w.resolved.Params
	if n := maxTokens(w.req); n > 0 {
		field := w.opts.TokensField
		if field == "" {
			field = MaxTokens
		}
		w.Key(field)
		w.Integer(n)
	}
	if n := w.req.Choices; n > 1 {
		w.Key("n")
		w.Integer(n)
	}
	w.sampling(p)
	w.Number("seed", p.Seed)
	w.stop(p.Stop)
	if p.ServiceTier == chat.TierStandard {
		w.Raw(`,"service_tier":"default"`)
	}
	w.EndUser(p.User)
	if w.sendsOwnEffort() {
		if effort := w.Effort(p, !w.opts.NoEffort, w.opts.Efforts); effort != "" {
			w.Key(keyEffort)
			w.Str(effort)
		}
	}
	w.format(p)
	switch {
	case w.opts.CacheKey && p.CacheKey != "":
		w.Key("prompt_cache_key")
		w.Str(p.CacheKey)
	case w.Conv.Params.CacheKey != "": // the client's own
		w.Degrade("prompt_cache_key")
	}
	if w.opts.Predictions && p.Predicted != "" {
		w.Key("prediction")
		w.JSON(prediction(p.Predicted))
	}
	for _, m := range w.members() {
		w.Key(m.Key)
		w.JSON(m.Value)
	}
}

// members returns the members that only this provider has, each once.
func (w *writer) members() []Member {
	own := slices.DeleteFunc(slices.Clone(w.control.members), func(m Member) bool {
		return slices.ContainsFunc(w.opts.Members, func(o Member) bool { return o.Key == m.Key })
	})
	return append(own, w.opts.Members...)
}

// maxTokens returns the client's limit of the answer, else its profile's; 0 if neither sets one.
func maxTokens(req *chat.Request) int {
	if req.MaxTokens == 0 && req.Profile != nil {
		return req.Profile.MaxTokens
	}
	return req.MaxTokens
}

// prediction returns the member "prediction" with the expected text of the answer.
func prediction(text string) jsonx.Raw {
	return append(jsonx.AppendString([]byte(`{"type":"content","content":`), text), '}')
}

// sampling writes the sampling parameters. For a model that refuses them, defaults are dropped silently.
func (w *writer) sampling(p *chat.Params) {
	fixed := w.opts.fixed(p.Effort)
	for i, text := range [...]string{p.Temperature, p.TopP, p.PresencePenalty, p.FrequencyPenalty} {
		switch {
		case !fixed:
			w.Number(sampling[i].key, text)
		case text != "" && !equalsDefault(text, sampling[i].defaultValue):
			w.Degrade(sampling[i].key)
		}
	}
	w.extension("top_k", p.TopK, w.opts.TopK)
	w.extension("min_p", p.MinP, w.opts.MinP)
}

// extension writes a parameter that OpenAI does not have, if the provider supports it.
func (w *writer) extension(key, text string, supported bool) {
	switch {
	case text == "":
	case supported:
		w.Number(key, text)
	default:
		w.Degrade(key)
	}
}

func (w *writer) stop(sequences []string) {
	limit := len(sequences)
	switch {
	case w.opts.noStop():
		limit = 0
	case w.opts.MaxStop > 0:
		limit = min(limit, w.opts.MaxStop)
	}
	if limit < len(sequences) {
		w.Degrade("stop_sequences")
		sequences = sequences[:limit]
	}
	if len(sequences) == 0 {
		return
	}
	w.Key("stop")
	w.OpenArray()
	for _, s := range sequences {
		w.Element()
		w.Str(s)
	}
	w.Raw("]")
}

func (w *writer) format(p *chat.Params) {
	switch {
	case p.JSONMode:
		w.Key(keyFormat)
		w.Raw(`{"type":"` + wire.JSONObject + `"}`)
		return
	case len(p.Schema) == 0:
		return
	}
	value, enforced := format(p)
	takes := w.opts.takesSchema(enforced)
	if takes {
		w.Key(keyFormat)
		w.JSON(value)
	}
	switch {
	case enforced && !w.opts.NoSchema, takes && p.SchemaLoose:
	case len(w.Conv.Params.Schema) > 0:
		w.Degrade("format")
	default:
		w.DegradeAs("response_schema")
	}
}

// format returns the member "response_format" with a schema. It is enforced if the provider accepts it, and the client did not disable
// that.
func format(p *chat.Params) (value jsonx.Raw, enforced bool) {
	b := jsonx.AppendString([]byte(`{"type":"json_schema","json_schema":{"name":`), cmp.Or(p.SchemaName, "answer"))
	if p.SchemaNote != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), p.SchemaNote)
	}
	b = append(append(b, `,"schema":`...), p.Schema...)
	enforced = !p.SchemaLoose && wire.Enforceable(jsonx.Value{Raw: p.Schema}, wire.ByOpenAI)
	b = strconv.AppendBool(append(b, `,"strict":`...), enforced)
	return append(b, "}}"...), enforced
}
