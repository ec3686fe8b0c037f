package blockrun

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/dual"
	"bardo.money/gateway/policy"
)

// withDefaultEffort sets an effort if neither the client nor its profile sets one: that of the quality class of the requested model.
// Thinking of Qwen's models is only on or off: on for subsystems that examine the reasoning, and for requests that are not routine. req is
// not changed. degraded is the name of a profile's effort that is replaced; "" for none.
func withDefaultEffort(req *chat.Request, to policy.Resolution) (r *chat.Request, degraded string, err error) {
	effort := effortFor(req, to)
	if to.Family == qwen && isRoutine(req) {
		effort, degraded = "none", wire.Replaced("reasoning_effort", "low", "none")
	}
	if effort == "" {
		return req, "", nil
	}
	if req.Dialect != chat.Anthropic || to.Family != dual.Claude { // parsed once instead of once per copy
		if _, err := req.Conversation(); err != nil {
			return nil, "", err
		}
	}
	changed, p := *req, *req.Profile
	p.Default.Effort = effort
	changed.Profile = &p
	return &changed, degraded, nil
}

// isRoutine reports whether the profile sets a low effort and the subsystem does not examine the reasoning.
func isRoutine(req *chat.Request) bool {
	p := req.Profile
	return p != nil && !p.NoGuidance && p.Default.Effort == "low" && !setsThinking(&p.Locked) && !req.HasThinking() && !visible(req)
}

// byQuality maps the quality classes of models to efforts.
var byQuality = map[string]string{"minimum": "low", "low": "low", "medium": "medium", "high": "high", "maximum": "high"}

func effortFor(req *chat.Request, to policy.Resolution) string {
	p := req.Profile
	if p == nil || setsThinking(&p.Default) || setsThinking(&p.Locked) {
		return ""
	}
	switch to.Family {
	case dual.Claude:
		if to.AdaptiveThinking {
			return byQuality[p.Quality]
		}
	case gpt, o, gemini:
		return byQuality[p.Quality]
	case qwen:
		if p.Subsystem == "" {
			return ""
		}
		if visible(req) {
			return "high"
		}
		return "none"
	}
	return ""
}

func setsThinking(p *chat.Params) bool {
	return p.Effort != "" || p.ThinkingBudget > 0 || p.Thinking != chat.ThinkingUnset
}

// visible reports whether reasoning is shown to the client.
func visible(req *chat.Request) bool {
	p := req.Profile
	switch {
	case p == nil:
		return req.HasThinking()
	case p.Default.Visible != nil:
		return *p.Default.Visible
	}
	return req.HasThinking() || p.ExaminesReasoning()
}
