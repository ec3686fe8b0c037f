package firewall

import (
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// maxKept is how much of a call's arguments is kept: more than rules look at, so that they see that it is too much.
const maxKept = rule.MaxArgs + 1

// offeredTool is a tool that the request offers.
type offeredTool struct {
	name   string
	schema jsonx.Raw
}

// tool is an offered tool; nil for one that is not offered.
func (s *state) tool(name string) *offeredTool {
	if s.offered == nil {
		s.offered = []offeredTool{}
		if t, err := transcript.Of(s.request); err == nil {
			for i := range t.Tools {
				s.offered = append(s.offered, offeredTool{toolName(&t.Tools[i]), t.Tools[i].Schema.Raw})
			}
		}
	}
	for i := range s.offered {
		if s.offered[i].name == name {
			return &s.offered[i]
		}
	}
	return nil
}

// decide judges a call by all rules, and records what they say of it.
func (s *state) decide(x *pipeline.Exchange, c *call) {
	j := &s.judge
	c.judged = true
	j.open--
	given, noted := arguments{call: c}, false
	for _, r := range s.rules {
		why := s.violation(x, r, &given)
		if why == "" {
			continue
		}
		shadow := s.shadow || r.Shadow
		noted = true
		switch r.OnViolation {
		case Flag:
			s.record(x, c, r, policy.DecisionFlagged, why, shadow)
			continue
		case Refuse:
			s.record(x, c, r, policy.DecisionRefused, why, shadow)
			if !shadow && j.refused == nil {
				j.refused = refusal("the model called the tool %q, which this gateway's rules do not allow (rule %s: %s)", fault.Clip(c.name), r.ID, why)
			}
		default:
			s.record(x, c, r, policy.DecisionRemoved, why, shadow)
			c.removed = c.removed || !shadow
			j.bare = j.bare || !shadow
		}
		if !shadow {
			return
		}
	}
	if !noted {
		s.record(x, c, nil, policy.DecisionAllowed, "", false)
	}
}

// violation is why a rule does not allow a call; "" if it does.
func (s *state) violation(x *pipeline.Exchange, r *Rule, given *arguments) string {
	c := given.call
	if why := r.objection(c.name); why != "" {
		return why
	}
	if len(r.Tools) > 0 && !r.Tools.Match(c.name) || !r.OwnSchema && r.Schema == nil && r.Condition == nil {
		return ""
	}
	args, err := given.read()
	switch {
	case err == rule.ErrTooLong: //nolint:errorlint // it is never wrapped
		return "too_large"
	case err != nil:
		return "invalid_arguments"
	case r.OwnSchema && s.tool(c.name) == nil:
		return "not_offered"
	case r.OwnSchema && !c.custom && !s.tool(c.name).takes(c.args):
		return "arguments"
	case r.Schema != nil && !r.Schema.Allows(args):
		return "schema"
	case r.Condition == nil:
		return ""
	}
	v := vars(x)
	v.Tool, v.Args = c.name, args
	switch holds, err := r.Condition.Holds(&v); {
	case err != nil:
		return "condition_failed"
	case !holds:
		return "condition"
	}
	return ""
}

// takes reports whether arguments follow the tool's own schema. A schema that cannot be used allows nothing.
func (t *offeredTool) takes(args []byte) bool {
	if len(t.schema) == 0 {
		return true
	}
	sch, err := structured.Compile("", t.schema)
	if err != nil {
		return false
	}
	if len(args) == 0 {
		args = []byte("{}")
	}
	return sch.Allows(args)
}

// arguments are those of a call, read when a rule looks at them.
type arguments struct {
	call *call
	done bool
	args map[string]any
	err  error
}

func (a *arguments) read() (map[string]any, error) {
	if !a.done {
		a.done = true
		if a.call.custom {
			a.args, a.err = rule.TextArgs(a.call.args)
		} else {
			a.args, a.err = rule.Args(a.call.args)
		}
	}
	return a.args, a.err
}
