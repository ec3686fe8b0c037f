package openai

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// adjuster changes a client's own request by what its profile says, and by the provider's own way to be told how hard to think. What
// neither changes stays as it came.
type adjuster struct {
	e    *jsonx.Edits
	d    *jsonx.Doc
	req  *chat.Request
	o    *RequestOptions
	own  chat.Params
	lost []string
}

// adjusts reports whether a client's own request may have to be said in another way to this provider.
func (o *RequestOptions) adjusts(d *jsonx.Doc) bool {
	if o.NoSchema && d.Find("response_format") >= 0 {
		return true
	}
	return (o.Reasoning != ReasoningEffort || o.Efforts != nil) &&
		(d.Find(keyEffort) >= 0 || d.Find(keyReasoning) >= 0 || d.Find(keyThinking) >= 0)
}

func (a *adjuster) lose(names ...string) {
	for _, name := range names {
		a.lost = wire.Named(a.lost, name)
	}
}

func (a *adjuster) adjust() {
	a.own = ownParams(a.d)
	s := settle(a.req.Profile, a.own, a.o)
	a.lose(s.names...)
	a.numbers(&s)
	a.think(&s)
	a.format(&s)
	if a.req.Profile == nil {
		return
	}
	if s.CacheKey != a.own.CacheKey {
		a.e.Set(a.d, "prompt_cache_key", jsonx.AppendString(nil, s.CacheKey))
	}
	if s.Predicted != a.own.Predicted {
		a.e.Set(a.d, "prediction", prediction(s.Predicted))
	}
	if n := maxTokens(a.req); n != a.req.MaxTokens {
		field := a.o.TokensField
		if field == "" {
			field = MaxTokens
		}
		a.e.Set(a.d, field, strconv.AppendInt(nil, int64(n), 10))
	}
	a.stop(&s)
	if s.MarkCache && a.o.CacheControl {
		a.patch().MarkStable(a.o.MinCache, a.systemBytes(), a.markSystem)
	}
}

// numbers sets what the profile says, and takes out what it overrides with nothing to put there.
func (a *adjuster) numbers(s *settled) {
	for _, n := range [...]struct{ key, own, said string }{
		{"temperature", a.own.Temperature, s.Temperature},
		{"top_p", a.own.TopP, s.TopP},
		{"top_k", a.own.TopK, s.TopK},
		{"min_p", a.own.MinP, s.MinP},
		{"presence_penalty", a.own.PresencePenalty, s.PresencePenalty},
		{"frequency_penalty", a.own.FrequencyPenalty, s.FrequencyPenalty},
		{"seed", a.own.Seed, s.Seed},
	} {
		switch n.said {
		case n.own:
		case "":
			a.e.Delete(a.d, n.key)
		default:
			a.e.Set(a.d, n.key, jsonx.Raw(n.said))
		}
	}
}

// think says how hard to think where the profile says it, where the provider is told in its own way, and where the model does not take
// the client's effort.
func (a *adjuster) think(s *settled) {
	generic := a.d.Get(keyEffort).Exists() || a.d.Get(keyReasoning).Kind() == jsonx.Object || a.d.Get(keyThinking).Exists()
	switch {
	case s.profiled:
	case a.o.NoEffort, a.o.Unknown, !generic: // the provider's own word is better than a guess
		return
	case a.o.Reasoning == ReasoningEffort:
		effort, ok := a.d.Get(keyEffort).Str()
		if !a.foreign() && (!ok || wire.FitEffort(a.o.Efforts, effort) == effort || a.o.Efforts == nil) {
			return
		}
	case a.isNative():
		return
	}
	t := a.o.think(s)
	a.lose(t.lost...)
	for _, key := range [...]string{keyEffort, keyReasoning, keyThinking, keyLevel, keyEnable, keyBudget} {
		says := func(m Member) bool { return m.Key == key }
		if !slices.ContainsFunc(t.members, says) {
			a.e.Delete(a.d, key)
		}
	}
	for _, m := range t.members {
		if m.Key == keyTemplate {
			a.template(m)
			continue
		}
		a.e.Set(a.d, m.Key, m.Value)
	}
	if t.words != "" {
		a.guide(t.words)
	}
	if t.slash != "" && !a.slash(t.slash) {
		a.lose(keyEffort)
	}
}

// foreign reports whether the client says it in OpenRouter's way to a provider that is known to have efforts: it would refuse that.
func (a *adjuster) foreign() bool {
	return a.o.Efforts != nil && a.d.Get(keyReasoning).Kind() == jsonx.Object && !a.d.Get(keyEffort).Exists()
}

// isNative reports whether the client says it in the provider's own way already.
func (a *adjuster) isNative() bool {
	switch a.o.Reasoning {
	case ReasoningObject:
		return a.d.Get(keyReasoning).Kind() == jsonx.Object
	case ThinkingLevel:
		return a.d.Get(keyLevel).Exists()
	case EnableThinking:
		return a.d.Get(keyEnable).Exists()
	case TemplateThinking:
		return a.d.Get(keyTemplate).Get(keyEnable).Exists()
	case ThinkingToggle:
		return a.d.Get(keyThinking).Exists()
	case ReasoningEffort, SlashThinking, PromptedReasoning, AlwaysThinking:
	}
	return false
}

// template puts the switch beside the client's own arguments of the template.
func (a *adjuster) template(m Member) {
	args := a.d.Get(keyTemplate)
	if args.Kind() != jsonx.Object || wire.IsEmpty(args) {
		a.e.Set(a.d, keyTemplate, m.Value)
		return
	}
	value := jsonx.Value{Raw: m.Value}.Get(keyEnable).Raw
	if v := args.Get(keyEnable); v.Exists() {
		a.e.Replace(v.At, v.At+len(v.Raw), value)
		return
	}
	a.e.Replace(args.At+1, args.At+1, slices.Concat([]byte(`"`+keyEnable+`":`), value, []byte(",")))
}

// format sets the schema of the answer that the profile has, and takes the client's out where the provider knows none.
func (a *adjuster) format(s *settled) {
	client := a.d.Get(keyFormat)
	switch {
	case client.IsNull() && len(s.Schema) > 0:
		value, enforced := format(&s.Params)
		if a.o.takesSchema(enforced) {
			a.e.Set(a.d, keyFormat, value)
		}
		if !enforced || a.o.NoSchema {
			a.lose("response_schema")
		}
	case a.o.NoSchema && client.Get("type").Equal("json_schema"):
		a.e.Delete(a.d, keyFormat)
		a.lose(keyFormat)
	}
}

// takesSchema reports whether the provider is to be told of a schema. strict is whether it is one that is enforced.
func (o *RequestOptions) takesSchema(strict bool) bool {
	return !o.NoSchema && (strict || !o.StrictSchema)
}

func (a *adjuster) stop(s *settled) {
	if len(s.Stop) == 0 || !a.d.Get("stop").IsNull() {
		return
	}
	most := s.Stop
	switch {
	case a.o.noStop():
		most = nil
	case a.o.MaxStop > 0:
		most = most[:min(len(most), a.o.MaxStop)]
	}
	if len(most) < len(s.Stop) {
		a.lose("stop_sequences")
	}
	if len(most) == 0 {
		return
	}
	b := []byte{'['}
	for i, text := range most {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, text)
	}
	a.e.Set(a.d, "stop", append(b, ']'))
}

// ownParams are the parameters that a request of this dialect says at its top. What is not what it should be counts as unsaid: its
// provider will say so.
func ownParams(d *jsonx.Doc) chat.Params {
	c := chat.Conversation{Words: words}
	r := chat.Request{Doc: *d}
	for i := range d.Members {
		m := &d.Members[i]
		v := jsonx.Value{Raw: jsonx.Raw(d.Bytes[m.Start:m.End]), At: m.Start}
		if v.IsNull() {
			continue
		}
		switch m.Key {
		case "messages", "tools", "functions":
		case "prompt_cache_key":
			c.Params.CacheKey, _ = v.Str()
		case "prediction":
			c.Params.Predicted = string(v.Raw) // whatever it says, it is said
		case keyEnable, keyLevel, keyTemplate:
			readNative(&c.Params, m.Key, v)
		default:
			_ = readParam(&c, &r, m.Key, v)
		}
	}
	return c.Params
}

// readNative reads what one provider's own clients say about thinking. An effort beside it says more.
func readNative(p *chat.Params, key string, v jsonx.Value) {
	if key == keyTemplate {
		v = v.Get(keyEnable)
	}
	on, ok := v.Bool()
	switch {
	case p.Thinking != chat.ThinkingUnsaid, key != keyLevel && !ok:
	case key == keyLevel, on:
		p.Thinking = chat.ThinkingAdaptive
	default:
		p.Thinking = chat.ThinkingOff
	}
}
