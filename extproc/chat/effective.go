package chat

import "bardo.money/gateway/internal/jsonx"

// Temperature is the text of the temperature that holds for a request: its locked profile's, else the client's own, else its profile's;
// "" if nobody names one. What the client wrote may be no number.
func (r *Request) Temperature() string {
	p := r.Profile
	if p != nil && p.Locked.Temperature != "" {
		return p.Locked.Temperature
	}
	own := r.Doc.Get("temperature")
	if r.Dialect == Gemini {
		own = r.Member("generationConfig", "generation_config").Get("temperature")
	}
	switch {
	case !own.IsNull():
		return string(own.Raw)
	case p != nil:
		return p.Default.Temperature
	}
	return ""
}

// SaysThinking reports whether the client itself says how hard to think, in any of the words that clients have for it.
func (r *Request) SaysThinking() bool {
	if r.Dialect == Gemini {
		config := r.Member("generationConfig", "generation_config")
		return config.Get("thinkingConfig").Exists() || config.Get("thinking_config").Exists()
	}
	return r.Member("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_level").Exists() ||
		r.Doc.Get("output_config").Get("effort").Exists() || r.Doc.Get("chat_template_kwargs").Get("enable_thinking").Exists()
}

// Member is the first of some top-level members that is there and not null.
func (r *Request) Member(names ...string) jsonx.Value {
	for _, name := range names {
		if v := r.Doc.Get(name); !v.IsNull() {
			return v
		}
	}
	return jsonx.Value{}
}

// either is an object's member under one of its two names.
func either(object jsonx.Value, camel, snake string) jsonx.Value {
	if v := object.Get(camel); v.Exists() {
		return v
	}
	return object.Get(snake)
}

// ThinkingOff reports whether a request says that its model is not to think: by a locked profile, by the client, in any of the words
// that clients have for it, or else by its profile.
func (r *Request) ThinkingOff() bool {
	off := func(p *Params) bool { return p.Thinking == ThinkingOff || p.Effort == "none" }
	switch p := r.Profile; {
	case p != nil && p.Locked.thinks():
		return off(&p.Locked)
	case r.SaysThinking():
		return r.saysNoThinking()
	default:
		return p != nil && off(&p.Default)
	}
}

func (r *Request) saysNoThinking() bool {
	if r.Dialect == Gemini {
		config := r.Member("generationConfig", "generation_config")
		thinking := either(config, "thinkingConfig", "thinking_config")
		budget := either(thinking, "thinkingBudget", "thinking_budget")
		return string(budget.Raw) == "0" || budget.Equal("0") // as the API's JSON writes large numbers
	}
	effort := r.Doc.Get("reasoning").Get("effort")
	if effort.IsNull() {
		effort = r.Doc.Get("reasoning_effort")
	}
	if effort.Equal("none") || r.Doc.Get("thinking").Get("type").Equal("disabled") {
		return true
	}
	for _, v := range [...]jsonx.Value{
		r.Doc.Get("reasoning").Get("enabled"), r.Doc.Get("enable_thinking"), r.Doc.Get("chat_template_kwargs").Get("enable_thinking"),
	} {
		if on, said := v.Bool(); said && !on {
			return true
		}
	}
	return false
}
