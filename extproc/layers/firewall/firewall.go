// Package firewall holds tools to the operator's rules: which of them a request may offer, and which calls of them may come back (F-03). Rules look at names,
// at the arguments by a JSON Schema, and at both and the caller by a condition. A refused call is taken out of the answer, or the answer is refused; each
// decision is a tag in the request's record. The layer does not know the configuration or the formats of answers.
package firewall

import (
	"context"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline, and in tags.
const Name = policy.ByFirewall

// Action is what happens to a call that a rule does not allow.
type Action string

// The actions.
const (
	Remove Action = "remove" // it is taken out of the answer, with a text in its place; "" is the same
	Refuse Action = "refuse" // the client gets an error in place of the answer
	Flag   Action = "flag"   // it is recorded, and nothing else
)

// Rule is one rule. A call has to follow all rules of its request.
type Rule struct {
	ID string

	// Whose requests: lists that are empty mean everybody's.
	Keys       rule.Names // ids or names of API keys
	Tiers      []string
	Subsystems rule.Names

	Allow rule.Names // tools; nil: all
	Deny  rule.Names // tools that are not allowed nevertheless

	Tools     rule.Names // the calls that the rest of the rule is about; empty: all
	OwnSchema bool       // the arguments must follow the schema that the request offers the tool with
	Schema    *rule.Schema
	Condition *rule.Condition

	OnViolation Action
	Shadow      bool // nothing is done, only recorded

	always bool // not in shadow with its layer
}

// sessionRule is the id of the rule that a session makes for its own requests.
const sessionRule = "session"

// Layer holds requests to rules. The zero value has none. Safe for concurrent use.
type Layer struct {
	Rules  []Rule
	Shadow bool  // all rules are
	Broken error // why the rules cannot be used; then no request passes
}

// New makes the layer of rules; err is why they cannot be used.
func New(rules []Rule, err error) Layer { return Layer{Rules: rules, Broken: err} }

// InShadow is the layer with all rules in shadow, if shadow is true.
func (l Layer) InShadow(shadow bool) Layer {
	l.Shadow = shadow
	return l
}

var (
	_ pipeline.Layer      = Layer{}
	_ pipeline.Selective  = Layer{}
	_ pipeline.Responder  = Layer{}
	_ pipeline.Protecting = Layer{}
)

// Name is "firewall".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: what a tool may do does not depend on a profile.
func (Layer) Profiles() []string { return profiles }

// Protects implements pipeline.Protecting.
func (Layer) Protects() {}

// state is what the layer knows of an exchange.
type state struct {
	rules   []*Rule
	shadow  bool
	request *chat.Request // as it was when its tools had been looked at
	offered []offeredTool // of request; nil until a call is judged
	judge   judge
}

var slot = pipeline.NewSlot[state]()

// Applies reports whether a rule is about the request's caller.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if x.Request.Op != chat.Generate && x.Request.Op != chat.CountTokens {
		return false
	}
	if l.Broken != nil || x.OnlyTools != nil {
		return true
	}
	return slices.ContainsFunc(l.Rules, func(r Rule) bool { return r.concerns(x) })
}

func (r *Rule) concerns(x *pipeline.Exchange) bool {
	return (len(r.Keys) == 0 || r.Keys.Match(string(x.Principal.Account)) || x.Principal.Name != "" && r.Keys.Match(x.Principal.Name)) &&
		(len(r.Tiers) == 0 || slices.Contains(r.Tiers, string(x.Principal.Tier))) &&
		(len(r.Subsystems) == 0 || r.Subsystems.Match(x.Hints.Subsystem) || r.Subsystems.Match(x.Intent.Subsystem))
}

// inShadow reports whether a rule is recorded, and nothing else.
func (s *state) inShadow(r *Rule) bool { return r.Shadow || s.shadow && !r.always }

// enforces reports whether a violation of the rule has a consequence for calls.
func (r *Rule) enforces() bool { return !r.Shadow && r.OnViolation != Flag }

// Request removes the tools that may not be offered, and has the answer watched.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	if l.Broken != nil {
		return l.Broken
	}
	s := slot.Of(x)
	s.shadow = l.Shadow
	for i := range l.Rules {
		if r := &l.Rules[i]; r.concerns(x) {
			s.rules = append(s.rules, r)
		}
	}
	if x.OnlyTools != nil {
		s.rules = append(s.rules, &Rule{ID: sessionRule, Allow: rule.Names(x.OnlyTools), always: true})
	}
	removed, err := s.offer(x)
	if err != nil {
		return err
	}
	e := pipeline.Entry{Layer: Name}
	if removed > 0 {
		e.Note = fmt.Sprintf("removed=%d", removed)
	}
	x.Log = append(x.Log, e)
	s.request = x.Request
	if x.Request.Op == chat.Generate {
		s.judge.enforces = slices.ContainsFunc(s.rules, func(r *Rule) bool { return r.enforces() && !s.inShadow(r) })
		x.MayChange = x.MayChange || s.judge.enforces
		x.Watch(Name, l)
	}
	return nil
}

// objection is why a rule does not let a tool be offered or called; "" if it does.
func (r *Rule) objection(tool string) string {
	switch {
	case r.Deny.Match(tool):
		return "denied"
	case r.Allow != nil && !r.Allow.Match(tool):
		return "not_allowed"
	}
	return ""
}

// refusal is the error of a request or an answer that a rule does not let pass.
func refusal(format string, args ...any) *fault.Fault {
	f := fault.Newf(fault.ToolRefused, format, args...)
	f.Quiet = true
	return f
}

// vars are what conditions can name, but for the call itself.
func vars(x *pipeline.Exchange) rule.Vars {
	v := rule.Vars{
		Subsystem: x.Hints.Subsystem, GolemID: x.Hints.GolemID, SessionID: x.Hints.SessionID, Key: string(x.Principal.Account), KeyName: x.Principal.Name,
		Tier: string(x.Principal.Tier), Regime: x.Hints.Regime, Phase: x.Hints.Phase.String(), TaskClass: x.Hints.TaskClass,
		SecurityClass: x.Hints.SecurityClass.String(), Vitality: 1, Model: x.Request.Model,
	}
	if x.Hints.Vitality != nil {
		v.Vitality = *x.Hints.Vitality
	}
	return v
}

// tag records a decision.
func tag(x *pipeline.Exchange, t policy.Tag) {
	t.By = Name
	x.Tag(t)
}
