package chat

import "bardo.money/gateway/internal/jsonx"

// Temperature returns the effective temperature as text: the locked profile's, else the client's, else the default profile's; "" if none is set. The
// client's may not be a number.
func (r *Request) Temperature() string {
	p := r.Profile
	if p != nil && p.Locked.Temperature != "" {
		return p.Locked.Temperature
	}
	switch own := r.ownTemperature(); {
	case !own.IsNull():
		return string(own.Raw)
	case p != nil:
		return p.Default.Temperature
	}
	return ""
}

// SetsTemperature reports whether the client's request has a temperature that its profile leaves in force.
func (r *Request) SetsTemperature() bool {
	return (r.Profile == nil || r.Profile.Locked.Temperature == "") && !r.ownTemperature().IsNull()
}

func (r *Request) ownTemperature() jsonx.Value {
	if r.Dialect == Gemini {
		return r.Member("generationConfig", "generation_config").Get("temperature")
	}
	return r.Doc.Get("temperature")
}

// HasThinking reports whether the client's request has any parameter for reasoning.
func (r *Request) HasThinking() bool {
	if r.Dialect == Gemini {
		config := r.Member("generationConfig", "generation_config")
		return config.Get("thinkingConfig").Exists() || config.Get("thinking_config").Exists()
	}
	return r.Member("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_level").Exists() ||
		r.Doc.Get("output_config").Get("effort").Exists() || r.Doc.Get("chat_template_kwargs").Get("enable_thinking").Exists()
}

// Member returns the first of several top-level members that exists and is not null.
func (r *Request) Member(names ...string) jsonx.Value {
	for _, name := range names {
		if v := r.Doc.Get(name); !v.IsNull() {
			return v
		}
	}
	return jsonx.Value{}
}

// either returns a member by its camel-case or snake-case name.
func either(object jsonx.Value, camel, snake string) jsonx.Value {
	if v := object.Get(camel); v.Exists() {
		return v
	}
	return object.Get(snake)
}

// ThinkingOff reports whether reasoning is disabled: by the locked profile, else by the client's parameters, else by the default profile.
func (r *Request) ThinkingOff() bool {
	off := func(p *Params) bool { return p.Thinking == ThinkingOff || p.Effort == "none" }
	switch p := r.Profile; {
	case p != nil && p.Locked.setsReasoning():
		return off(&p.Locked)
	case r.HasThinking():
		return r.disablesThinking()
	default:
		return p != nil && off(&p.Default)
	}
}

func (r *Request) disablesThinking() bool {
	if r.Dialect == Gemini {
		config := r.Member("generationConfig", "generation_config")
		thinking := either(config, "thinkingConfig", "thinking_config")
		budget := either(thinking, "thinkingBudget", "thinking_budget")
		return string(budget.Raw) == "0" || budget.Equal("0") // 64-bit numbers may be strings in Google's JSON
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
