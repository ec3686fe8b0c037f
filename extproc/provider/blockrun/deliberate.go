package blockrun

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// deliberate says how hard a model shall think where neither the client nor its profile does: as hard as the class of model that was
// asked for, and Qwen's models only for those who look at it. The request itself does not change.
func deliberate(req *chat.Request, to policy.Resolution) (*chat.Request, error) {
	effort := effortFor(req, to)
	if effort == "" {
		return req, nil
	}
	if req.Dialect != chat.Anthropic || to.Family != claude { // is parsed once, and not once per copy
		if _, err := req.Conversation(); err != nil {
			return nil, err
		}
	}
	r, p := *req, *req.Profile
	p.Default.Effort = effort
	r.Profile = &p
	return &r, nil
}

// byQuality are the efforts of the classes of models.
var byQuality = map[string]string{"minimum": "low", "low": "low", "medium": "medium", "high": "high", "maximum": "high"}

func effortFor(req *chat.Request, to policy.Resolution) string {
	p := req.Profile
	if p == nil || said(&p.Default) || said(&p.Locked) {
		return ""
	}
	switch to.Family {
	case claude:
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
