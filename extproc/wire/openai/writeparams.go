package openai

import (
	"cmp"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// maxUser is how long OpenAI lets a user's name be.
const maxUser = 64

// tools writes the functions; tools that run at the other dialect's provider cannot be said.
func (w *writer) tools() {
	functions := 0
	for i := range w.offered {
		if t := &w.offered[i]; t.Raw != nil {
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
	for i := range w.offered {
		if t := &w.offered[i]; t.Raw == nil {
			w.tool(t)
		}
	}
	w.Raw("]")
	w.toolChoice()
	if p := w.Conv.ParallelTools; p != nil {
		w.Key("parallel_tool_calls")
		w.boolean(*p)
	}
}

func (w *writer) tool(t *chat.Tool) {
	w.Element()
	w.Raw(`{"type":"function","function":{"name":`)
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
	switch {
	case !t.Strict:
	case wire.Enforceable(jsonx.Value{Raw: t.Schema}, wire.ByOpenAI):
		w.Raw(`,"strict":true`)
	default:
		w.Lose("strict")
	}
	w.Raw("}")
	w.mark(t.CacheControl)
	w.Raw("}")
}

func (w *writer) toolChoice() {
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
		w.Raw(`,"tool_choice":{"type":"function","function":{"name":`)
		w.Str(wire.ToolName(choice.Name))
		w.Raw("}}")
	}
}

func (w *writer) params() {
	p := &w.settled.Params
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
	w.number("seed", p.Seed)
	w.stop(p.Stop)
	if p.ServiceTier == chat.TierStandard {
		w.Raw(`,"service_tier":"default"`)
	}
	w.endUser(p.User)
	if w.ownWords() {
		w.effort(p)
	}
	w.format(p)
	switch {
	case w.opts.CacheKey && p.CacheKey != "":
		w.Key("prompt_cache_key")
		w.Str(p.CacheKey)
	case w.Conv.Params.CacheKey != "": // the client's own
		w.Lose("prompt_cache_key")
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

// members are those that only this provider knows, each once.
func (w *writer) members() []Member {
	own := slices.DeleteFunc(slices.Clone(w.thought.members), func(m Member) bool {
		return slices.ContainsFunc(w.opts.Members, func(o Member) bool { return o.Key == m.Key })
	})
	return append(own, w.opts.Members...)
}

// maxTokens is the answer's limit that the client set, or its profile where it set none; 0 if neither did.
func maxTokens(req *chat.Request) int {
	if req.MaxTokens == 0 && req.Profile != nil {
		return req.Profile.MaxTokens
	}
	return req.MaxTokens
}

// prediction is what most of the answer is expected to be, as OpenAI wants it said.
func prediction(text string) jsonx.Raw {
	return append(jsonx.AppendString([]byte(`{"type":"content","content":`), text), '}')
}

// sampling writes how the model draws its words. One that draws them as it will takes no word about it but 1, which
// means the same.
func (w *writer) sampling(p *chat.Params) {
	fixed := w.opts.fixed(p.Effort)
	for i, text := range [...]string{p.Temperature, p.TopP, p.PresencePenalty, p.FrequencyPenalty} {
		switch {
		case !fixed:
			w.number(sampling[i].key, text)
		case text != "" && !usual(text, sampling[i].usual):
			w.Lose(sampling[i].key)
		}
	}
	w.beyond("top_k", p.TopK, w.opts.TopK)
	w.beyond("min_p", p.MinP, w.opts.MinP)
}

// beyond writes a parameter that OpenAI does not know, where the provider does.
func (w *writer) beyond(key, text string, takes bool) {
	switch {
	case text == "":
	case takes:
		w.number(key, text)
	default:
		w.Lose(key)
	}
}

func (w *writer) number(key, text string) {
	if text != "" {
		w.Key(key)
		w.Raw(text)
	}
}

func (w *writer) boolean(on bool) {
	if on {
		w.Raw("true")
	} else {
		w.Raw("false")
	}
}

func (w *writer) stop(sequences []string) {
	most := len(sequences)
	switch {
	case w.opts.noStop():
		most = 0
	case w.opts.MaxStop > 0:
		most = min(most, w.opts.MaxStop)
	}
	if most < len(sequences) {
		w.Lose("stop_sequences")
		sequences = sequences[:most]
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

// endUser writes who the end user is. A name that OpenAI would refuse for its length is left out.
func (w *writer) endUser(name string) {
	switch {
	case name == "":
	case len(name) > maxUser:
		w.Lose("user_id")
	default:
		w.Key("user")
		w.Str(name)
	}
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
		w.Lose("format")
	default:
		w.Name("response_schema")
	}
}

// format is a schema of the answer as this format says it. It is enforced where the provider takes it, and the client did not ask for less.
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
