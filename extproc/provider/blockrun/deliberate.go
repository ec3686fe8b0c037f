package blockrun

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/dual"
	"bardo.money/gateway/policy"
)

// deliberate says how hard a model shall think where neither the client nor its profile does: as hard as the class of model that was
// asked for. Qwen's models, which think or do not, think for those who look at it and for what is not routine; routine is what little
// thinking is enough for. The request itself does not change. lost is what became of an effort that was said.
func deliberate(req *chat.Request, to policy.Resolution) (r *chat.Request, lost string, err error) {
	effort := effortFor(req, to)
	if to.Family == qwen && isRoutine(req) {
		effort, lost = "none", wire.Became("reasoning_effort", "low", "none")
	}
	if effort == "" {
		return req, "", nil
	}
	if req.Dialect != chat.Anthropic || to.Family != dual.Claude { // is parsed once, and not once per copy
		if _, err := req.Conversation(); err != nil {
			return nil, "", err
		}
	}
	again, p := *req, *req.Profile
	p.Default.Effort = effort
	again.Profile = &p
	return &again, lost, nil
}

// isRoutine reports whether a profile finds little thinking enough, and nobody looks at it.
func isRoutine(req *chat.Request) bool {
	p := req.Profile
	return p != nil && !p.NoGuidance && p.Default.Effort == "low" && !said(&p.Locked) && !req.SaysThinking() && !visible(req)
}

// byQuality are the efforts of the classes of models.
var byQuality = map[string]string{"minimum": "low", "low": "low", "medium": "medium", "high": "high", "maximum": "high"}

func effortFor(req *chat.Request, to policy.Resolution) string {
	p := req.Profile
	if p == nil || said(&p.Default) || said(&p.Locked) {
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

func said(p *chat.Params) bool {
	return p.Effort != "" || p.ThinkingBudget > 0 || p.Thinking != chat.ThinkingUnsaid
}

// looking are the parts of an agent that look at how the model came to its answer.
var looking = []string{"dream", "death", "daimon_complex"}

// visible tells whether the reasoning is to be shown.
func visible(req *chat.Request) bool {
	p := req.Profile
	switch {
	case p == nil:
		return req.SaysThinking()
	case p.Default.Visible != nil:
		return *p.Default.Visible
	}
	return req.SaysThinking() || slices.ContainsFunc(looking, func(part string) bool { return strings.HasPrefix(p.Subsystem, part) })
}
