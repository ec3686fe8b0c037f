package openai

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// adjuster applies the profile, and the provider's own parameters for thinking, to a client's own request. Everything else keeps its bytes.
type adjuster struct {
	edits    *jsonx.Edits
	doc      *jsonx.Doc
	req      *chat.Request
	opts     *RequestOptions
	own      chat.Params
	degraded []string
}

// adjusts reports whether a client's own request may have to be changed for this provider even without a profile.
func (o *RequestOptions) adjusts(d *jsonx.Doc) bool {
	if o.NoSchema && d.Find("response_format") >= 0 {
		return true
	}
	return (o.Reasoning != ReasoningEffort || o.Efforts != nil) &&
		(d.Find(keyEffort) >= 0 || d.Find(keyReasoning) >= 0 || d.Find(keyThinking) >= 0)
}

func (a *adjuster) degrade(names ...string) {
	for _, name := range names {
		a.degraded = wire.AppendDegraded(a.degraded, name)
	}
}

func (a *adjuster) adjust() {
	a.own = ownParams(a.doc)
	s := resolveParams(a.req.Profile, a.own, a.opts)
	a.degrade(s.degraded...)
	a.numbers(&s)
	a.think(&s)
	a.format(&s)
	if a.req.Profile == nil {
		return
	}
	if s.CacheKey != a.own.CacheKey {
		a.edits.Set(a.doc, "prompt_cache_key", jsonx.AppendString(nil, s.CacheKey))
	}
	if s.Predicted != a.own.Predicted {
		a.edits.Set(a.doc, "prediction", prediction(s.Predicted))
	}
	if n := maxTokens(a.req); n != a.req.MaxTokens {
		field := a.opts.TokensField
		if field == "" {
			field = MaxTokens
		}
		a.edits.Set(a.doc, field, strconv.AppendInt(nil, int64(n), 10))
	}
	a.stop(&s)
}

// numbers sets the profile's numbers, and removes those that it overrides with nothing.
func (a *adjuster) numbers(s *resolvedParams) {
	for _, n := range [...]struct{ key, own, wanted string }{
		{"temperature", a.own.Temperature, s.Temperature},
		{"top_p", a.own.TopP, s.TopP},
		{"top_k", a.own.TopK, s.TopK},
		{"min_p", a.own.MinP, s.MinP},
		{"presence_penalty", a.own.PresencePenalty, s.PresencePenalty},
		{"frequency_penalty", a.own.FrequencyPenalty, s.FrequencyPenalty},
		{"seed", a.own.Seed, s.Seed},
	} {
		switch n.wanted {
		case n.own:
		case "":
			a.edits.Delete(a.doc, n.key)
		default:
			a.edits.Set(a.doc, n.key, jsonx.Raw(n.wanted))
		}
	}
}

// think writes the effort of thinking if the profile sets it, if the provider has its own member for it, or if the model does not accept
// the client's effort.
func (a *adjuster) think(s *resolvedParams) {
	generic := a.doc.Get(keyEffort).Exists() || a.doc.Get(keyReasoning).Kind() == jsonx.Object || a.doc.Get(keyThinking).Exists()
	switch {
	case s.byProfile:
	case a.opts.NoEffort, a.opts.Unknown, !generic: // the client's own member for this provider is more reliable than a guess
		return
	case a.opts.Reasoning == ReasoningEffort:
		effort, ok := a.doc.Get(keyEffort).Str()
		if !a.foreign() && (!ok || wire.FitEffort(a.opts.Efforts, effort) == effort || a.opts.Efforts == nil) {
			return
		}
	case a.isNative():
		return
	}
	t := a.opts.think(s)
	a.degrade(t.degraded...)
	for _, key := range [...]string{keyEffort, keyReasoning, keyThinking, keyLevel, keyEnable, keyBudget} {
		says := func(m Member) bool { return m.Key == key }
		if !slices.ContainsFunc(t.members, says) {
			a.edits.Delete(a.doc, key)
		}
	}
	for _, m := range t.members {
		if m.Key == keyTemplate {
			a.template(m)
			continue
		}
		a.edits.Set(a.doc, m.Key, m.Value)
	}
	if t.prompt != "" {
		a.prependSystem(t.prompt)
	}
	if t.slash != "" && !a.prependSwitch(t.slash) {
		a.degrade(keyEffort)
	}
}

// foreign reports whether the client uses OpenRouter's object at a provider that is known to have efforts, and that would refuse the
// object.
func (a *adjuster) foreign() bool {
	return a.opts.Efforts != nil && a.doc.Get(keyReasoning).Kind() == jsonx.Object && !a.doc.Get(keyEffort).Exists()
}

// isNative reports whether the client already uses the provider's own member.
func (a *adjuster) isNative() bool {
	switch a.opts.Reasoning {
	case ReasoningObject:
		return a.doc.Get(keyReasoning).Kind() == jsonx.Object
	case ThinkingLevel:
		return a.doc.Get(keyLevel).Exists()
	case EnableThinking:
		return a.doc.Get(keyEnable).Exists()
	case TemplateThinking:
		return a.doc.Get(keyTemplate).Get(keyEnable).Exists()
	case ThinkingToggle:
		return a.doc.Get(keyThinking).Exists()
	case ReasoningEffort, SlashThinking, PromptedReasoning, AlwaysThinking:
	}
	return false
}

// template sets the switch of thinking among the client's own arguments of the chat template.
func (a *adjuster) template(m Member) {
	args := a.doc.Get(keyTemplate)
	if args.Kind() != jsonx.Object || wire.IsEmpty(args) {
		a.edits.Set(a.doc, keyTemplate, m.Value)
		return
	}
	value := jsonx.Value{Raw: m.Value}.Get(keyEnable).Raw
	if v := args.Get(keyEnable); v.Exists() {
		a.edits.Replace(v.At, v.At+len(v.Raw), value)
		return
	}
	a.edits.Replace(args.At+1, args.At+1, slices.Concat([]byte(`"`+keyEnable+`":`), value, []byte(",")))
}

// format sets the profile's schema of the answer, and removes the client's where the provider does not support schemas.
func (a *adjuster) format(s *resolvedParams) {
	client := a.doc.Get(keyFormat)
	switch {
	case client.IsNull() && len(s.Schema) > 0:
		value, enforced := format(&s.Params)
		if a.opts.takesSchema(enforced) {
			a.edits.Set(a.doc, keyFormat, value)
		}
		if !enforced || a.opts.NoSchema {
			a.degrade("response_schema")
		}
	case a.opts.NoSchema && client.Get("type").Equal("json_schema"):
		a.edits.Delete(a.doc, keyFormat)
		a.degrade(keyFormat)
	}
}

// takesSchema reports whether a schema is sent to the provider. strict is whether the provider would enforce it.
func (o *RequestOptions) takesSchema(strict bool) bool {
	return !o.NoSchema && (strict || !o.StrictSchema)
}

func (a *adjuster) stop(s *resolvedParams) {
	if len(s.Stop) == 0 || !a.doc.Get("stop").IsNull() {
		return
	}
	sequences := s.Stop
	switch {
	case a.opts.noStop():
		sequences = nil
	case a.opts.MaxStop > 0:
		sequences = sequences[:min(len(sequences), a.opts.MaxStop)]
	}
	if len(sequences) < len(s.Stop) {
		a.degrade("stop_sequences")
	}
	if len(sequences) == 0 {
		return
	}
	b := []byte{'['}
	for i, text := range sequences {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, text)
	}
	a.edits.Set(a.doc, "stop", append(b, ']'))
}

// ownParams returns the parameters in a request's own top-level members. Members of the wrong type count as absent: the provider will
// refuse them.
func ownParams(d *jsonx.Doc) chat.Params {
	c := chat.Conversation{Words: words}
	r := chat.Request{Doc: *d}
	for key, v := range wire.TopMembers(d) {
		if v.IsNull() {
			continue
		}
		switch key {
		case "messages", "tools", "functions":
		case "prompt_cache_key":
			c.Params.CacheKey, _ = v.Str()
		case "prediction":
			c.Params.Predicted = string(v.Raw) // only whether it is set matters
		case keyEnable, keyLevel, keyTemplate:
			readNative(&c.Params, key, v)
		default:
			_ = readParam(&c, &r, key, v)
		}
	}
	return c.Params
}

// readNative reads a provider's own members for thinking. An effort has precedence.
func readNative(p *chat.Params, key string, v jsonx.Value) {
	if key == keyTemplate {
		v = v.Get(keyEnable)
	}
	on, ok := v.Bool()
	switch {
	case p.Thinking != chat.ThinkingUnset, key != keyLevel && !ok:
	case key == keyLevel, on:
		p.Thinking = chat.ThinkingAdaptive
	default:
		p.Thinking = chat.ThinkingOff
	}
}
