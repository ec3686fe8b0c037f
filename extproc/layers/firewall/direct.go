package firewall

import (
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/policy"
)

// Tools of MCP servers that clients call through the gateway, not through a model. The same rules apply; a call that one does not allow is refused.

// Direct is a tool of an MCP server that a client calls, or may see, through the gateway.
type Direct struct {
	Server, Tool string
	Known        bool // the server has said that it has the tool: records may have its name
}

func (d *Direct) name() string { return mcp + "/" + d.Server + "/" + d.Tool }

// call is the tool's call as rules see it: by the names of a provider's call of it.
func (d *Direct) call(args []byte) *call {
	return &call{name: d.name(), args: args, own: &ownCall{names: []string{mcp, d.name()}, inner: d.Tool}, direct: true}
}

// recordedAs is the tool's name in records.
func (s *state) recordedAs(d *Direct) string {
	if d.Known {
		return d.name()
	}
	if name := s.recordedName(d.name()); name != otherTool {
		return name
	}
	return mcp + "/" + d.Server + "/" + otherTool
}

// Objection is a decision against a tool. The zero value is none.
type Objection struct{ Rule, Reason string }

// OffersDirect reports whether the rules allow that the client sees a tool. Removed tools are recorded.
func (l Layer) OffersDirect(x *pipeline.Exchange, d *Direct) bool {
	s := l.stateFor(x)
	for _, r := range s.rules {
		why := r.objectionTo(d.call(nil))
		if why == "" {
			continue
		}
		shadow := s.inShadow(r)
		s.recordDirect(x, d, policy.StageTools, policy.DecisionRemoved, Objection{r.ID, why}, shadow)
		if !shadow {
			return false
		}
	}
	return true
}

// JudgeDirect returns why the rules do not allow a call; none if they do. schema returns the schema of the tool's arguments, nil without one; ok is false if the
// server does not have the tool. Each decision is recorded.
func (l Layer) JudgeDirect(x *pipeline.Exchange, d *Direct, args []byte, schema func() (raw []byte, ok bool)) Objection {
	s, c := l.stateFor(x), d.call(args)
	given, noted := arguments{call: c}, false
	for _, r := range s.rules {
		if r.OwnSchema && s.offered == nil {
			s.offered = []offeredTool{}
			if raw, ok := schema(); ok {
				s.offered = append(s.offered, offeredTool{name: c.name, schema: raw})
			}
		}
		why := s.violation(x, r, &given)
		if why == "" {
			continue
		}
		noted = true
		decision, shadow := policy.DecisionRefused, s.inShadow(r)
		if r.OnViolation == Flag {
			decision = policy.DecisionFlagged
		}
		s.recordDirect(x, d, policy.StageCall, decision, Objection{r.ID, why}, shadow)
		if decision == policy.DecisionRefused && !shadow {
			return Objection{r.ID, why}
		}
	}
	if !noted {
		s.recordDirect(x, d, policy.StageCall, policy.DecisionAllowed, Objection{}, false)
	}
	return Objection{}
}

// RecordDirect records a decision that is not a rule's, but the configuration's of a server.
func (l Layer) RecordDirect(x *pipeline.Exchange, d *Direct, stage policy.TagStage, decision string, why Objection) {
	l.stateFor(x).recordDirect(x, d, stage, decision, why, false)
}

// recordDirect records a decision.
func (s *state) recordDirect(x *pipeline.Exchange, d *Direct, stage policy.TagStage, decision string, why Objection, shadow bool) {
	if stage == policy.StageTools && len(x.Tags) >= maxRemovedTags {
		return
	}
	tag(x, policy.Tag{Rule: why.Rule, Stage: stage, Tool: s.recordedAs(d), Decision: decision, Reason: why.Reason, Shadow: shadow})
}

// stateFor has the rules that apply to a request.
func (l Layer) stateFor(x *pipeline.Exchange) *state {
	return &state{rules: l.applying(x), shadow: l.Shadow, request: x.Request}
}

// applying are the rules that apply to a request.
func (l Layer) applying(x *pipeline.Exchange) (rules []*Rule) {
	for i := range l.Rules {
		if r := &l.Rules[i]; r.concerns(x) {
			rules = append(rules, r)
		}
	}
	return rules
}
