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

// maxArgs is how many bytes of a call's arguments are kept: one more than rules accept, so that longer arguments are detected.
const maxArgs = rule.MaxArgs + 1

// offeredTool is a tool that the request offers.
type offeredTool struct {
	name   string
	schema jsonx.Raw
	own    bool // defined by the provider
}

// tool is the offered tool of a name; nil if there is none.
func (s *state) tool(name string) *offeredTool {
	all := s.tools()
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

// tools are the offered tools.
func (s *state) tools() []offeredTool {
	if s.offered == nil {
		s.offered = []offeredTool{}
		if t, err := transcript.Of(s.request); err == nil {
			for i := range t.Tools {
				s.offered = append(s.offered, offeredTool{toolName(&t.Tools[i]), t.Tools[i].Schema.Raw, t.Tools[i].Builtin})
			}
		}
	}
	return s.offered
}

// offeredAs is the name under which the request offers the tool of a call; "" if it does not offer it.
func (s *state) offeredAs(c *call) string {
	if c.own != nil && !c.direct {
		return s.ownOffered(c)
	}
	if s.tool(c.name) == nil {
		return ""
	}
	return c.name
}

// decide judges a call by all rules, and records the decisions.
func (s *state) decide(x *pipeline.Exchange, c *call) {
	j := &s.judge
	c.judged = true
	j.open--
	s.addOfferedName(c)
	args, noted := arguments{call: c}, false
	for _, r := range s.rules {
		why := s.violation(x, r, &args)
		if why == "" {
			continue
		}
		shadow := s.inShadow(r)
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
			j.rewritten = j.rewritten || !shadow
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
	if why := r.objectionTo(c); why != "" {
		return why
	}
	if len(r.Tools) > 0 && !c.matches(r.Tools) || !r.OwnSchema && r.Schema == nil && r.Condition == nil {
		return ""
	}
	args, err := given.read()
	switch {
	case err == rule.ErrTooLong: //nolint:errorlint // it is never wrapped
		return "too_large"
	case err != nil:
		return "invalid_arguments"
	case r.OwnSchema && s.offeredAs(c) == "":
		return "not_offered"
	case r.OwnSchema && (c.own == nil || c.direct) && !c.custom && !s.tool(c.name).accepts(c.args):
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

// accepts reports whether arguments are valid by the tool's own schema. A schema that cannot be compiled accepts nothing.
func (t *offeredTool) accepts(args []byte) bool {
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

// arguments are those of a call, parsed when the first rule needs them.
type arguments struct {
	call *call
	done bool
	args map[string]any
	err  error
}

func (a *arguments) read() (map[string]any, error) {
	if !a.done {
		a.done = true
		switch {
		case a.call.custom:
			a.args, a.err = rule.TextArgs(a.call.args)
		case a.call.own != nil && !a.call.direct:
			a.args, a.err = ownArgs(a.call.args)
		default:
			a.args, a.err = rule.Args(a.call.args)
		}
	}
	return a.args, a.err
}
