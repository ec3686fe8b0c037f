package extproc

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// try is one call of one candidate.
type try struct {
	to   policy.Resolution
	plan *structured.Plan // how it is asked for the form of its answer; nil: as the client asks
	say  []chat.Message   // what it is told behind the messages
	req  *chat.Request    // the client's, as it is for this call; known once the call was written
}

// tryOf is the next call of a candidate: the one that it is told of its failed answer in, if it just gave one.
func (x *exchange) tryOf(to policy.Resolution) *try {
	t := &try{to: to, plan: x.planFor(&to)}
	if r := x.rejected; r != nil && r.at(&to) {
		t.say = r.say
	}
	return t
}

// shaped is the client's request as a call has it, before it is written for its provider. The caller holds encodeMu.
func (x *exchange) shaped(t *try) (*chat.Request, error) {
	shape := x.shapeOf(t)
	if shape == nil {
		return x.Request, nil
	}
	return x.rt.Dialects[x.Request.Dialect].(wire.Shaper).Shape(x.Request, shape) //nolint:forcetypeassert // forms are for those alone
}

// shapeOf is what a call has of its own; nil for nothing.
func (x *exchange) shapeOf(t *try) *wire.Shape {
	if t.plan == nil || t.plan.Shape == nil && len(t.say) == 0 {
		return nil
	}
	if len(t.say) == 0 {
		return t.plan.Shape
	}
	var s wire.Shape
	if t.plan.Shape != nil {
		s = *t.plan.Shape
	} else {
		s.KeepForm = true
	}
	if x.keptAt(&t.to) { // instructions are not, so that who goes on from the answer goes on without what was wrong with the one before
		s.Guide = guided(s.Guide, t.say)
		return &s
	}
	s.Say = t.say
	return &s
}

// guided is a guide that holds what is said behind the messages.
func guided(guide string, say []chat.Message) string {
	var b strings.Builder
	b.WriteString(guide)
	for i := range say {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		if say[i].Role == chat.RoleAssistant {
			b.WriteString("You have answered before, with:\n\n")
		}
		for _, p := range say[i].Parts {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// formless is a request whose profile says nothing of a form, which the call itself asks for.
func (x *exchange) formless(req *chat.Request) *chat.Request {
	if x.form == nil || req.Profile == nil || len(req.Profile.Default.Schema) == 0 {
		return req
	}
	less, p := *req, *req.Profile
	p.Default.Schema, p.Default.SchemaName, p.Default.SchemaNote = nil, "", ""
	less.Profile = &p
	return &less
}

// said leaves out of what a provider could not be told what nobody but the gateway said: the schema's note.
func (t *try) said(lost []string) []string {
	if t.plan == nil || t.plan.Shape == nil || t.plan.Shape.Note == "" {
		return lost
	}
	return slices.DeleteFunc(slices.Clone(lost), func(name string) bool { return name == "description" })
}
