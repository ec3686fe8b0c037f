// Package firewall enforces the operator's rules for tools: which of them a request may offer, and which calls the model may make (F-03). A rule checks names,
// arguments by a JSON Schema, and all of these with the caller by a condition. A call that violates a rule is removed from the answer, or the answer is refused;
// each decision is a tag in the request's record. The layer does not know the configuration or the formats of answers.
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
	Remove Action = "remove" // it is replaced by a text in the answer; "" is the same
	Refuse Action = "refuse" // the client gets an error instead of the answer
	Flag   Action = "flag"   // it is only recorded
)

// Rule is one rule. A call must comply with all rules that apply to its request.
type Rule struct {
	ID string

	// The requests that the rule applies to; an empty list means all.
	Keys       rule.Names // ids or names of API keys
	Tiers      []string
	Subsystems rule.Names

	Allow rule.Names // tools; nil: all
	Deny  rule.Names // tools that are not allowed, even if Allow has them

	Tools     rule.Names // the tools to whose calls OwnSchema, Schema and Condition apply; empty: all
	OwnSchema bool       // the arguments must be valid by the schema with which the request offers the tool
	Schema    *rule.Schema
	Condition *rule.Condition

	OnViolation Action
	Shadow      bool // violations are only recorded

	always bool // enforced even if its layer is in shadow
}

// sessionRule is the id of the rule for the tools of a session.
const sessionRule = "session"

// Layer enforces rules. The zero value has none. Safe for concurrent use.
type Layer struct {
	Rules  []Rule
	Shadow bool  // all rules are in shadow
	Broken error // why the rules cannot be used; if set, all requests are refused
}

// New returns a layer with rules; err is why they cannot be used, or nil.
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
	_ pipeline.Demanding  = Layer{}
)

// Name is "firewall".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: what a tool may do does not depend on a profile.
func (Layer) Profiles() []string { return profiles }

// Protects implements pipeline.Protecting.
func (Layer) Protects() {}

// state is the layer's state for an exchange.
type state struct {
	rules   []*Rule
	shadow  bool
	request *chat.Request // after its tools were filtered
	offered []offeredTool // of request; nil until the first call is judged
	judge   judge
}

var slot = pipeline.NewSlot[state]()

// Demands implements pipeline.Demanding.
func (l Layer) Demands(x *pipeline.Exchange) string {
	if l.Broken != nil || x.OnlyTools != nil || slices.ContainsFunc(l.Rules, func(r Rule) bool {
		return r.concerns(x) && r.enforces() && (!l.Shadow || r.always)
	}) {
		return "rules for tools have to be enforced (pipeline.firewall, or the tools of an agent's session)"
	}
	return ""
}

// Applies reports whether a rule applies to the request.
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

// inShadow reports whether violations of a rule are only recorded.
func (s *state) inShadow(r *Rule) bool { return r.Shadow || s.shadow && !r.always }

// enforces reports whether the rule, unless its layer is in shadow, removes or refuses calls.
func (r *Rule) enforces() bool { return !r.Shadow && r.OnViolation != Flag }

// Request removes the tools that may not be offered, and registers the layer for the answer.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	if l.Broken != nil {
		return l.Broken
	}
	s := slot.Of(x)
	s.rules, s.shadow = l.applying(x), l.Shadow
	if x.OnlyTools != nil {
		s.rules = append(s.rules, &Rule{ID: sessionRule, Allow: rule.Names(x.OnlyTools), always: true})
	}
	removed, err := s.filterTools(x)
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

// objection is why a rule does not allow a tool to be offered or called; "" if it does.
func (r *Rule) objection(tool string) string {
	switch {
	case r.Deny.Match(tool):
		return "denied"
	case r.Allow != nil && !r.Allow.Match(tool):
		return "not_allowed"
	}
	return ""
}

// refusal is the error of a request or an answer that a rule does not allow.
func refusal(format string, args ...any) *fault.Fault {
	f := fault.Newf(fault.ToolRefused, format, args...)
	f.Quiet = true
	return f
}

// vars are the variables of conditions, except those of the call.
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
