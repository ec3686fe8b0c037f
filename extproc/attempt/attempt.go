// Package attempt is one call of one candidate for a request: its body is written from the request (never from an earlier attempt's), it
// takes a key of the provider, it is sent through Envoy's egress listener, or by a stream.Caller, and its answer is read piece by piece.
package attempt

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/e2ee"
)

// Attempt is one call of one candidate.
type Attempt struct {
	View        *request.View // of the request; only read
	To          policy.Resolution
	Plan        *structured.Plan   // how the candidate is held to the answer's schema; nil: as the client's request says
	HasSchema   bool               // the answer has a schema: the profile's own is left out
	Substituted string             // what takes the place of the client's own schema, as X-Bardo-Degraded has it; "" for nothing
	Correction  []chat.Message     // put behind the messages: failed answers, and what is wrong with them
	Sent        *chat.Request      // the client's request as it is for this call; set by Write
	Sealed      *e2ee.Call         // of a request that was encrypted; set by Write; nil for any other
	Paid        policy.Micro       // what was signed for the call, where its provider is paid for single calls; set by Do
	Proof       *attestation.Proof // of an answer that has to be attested; set by Write, and verified when Do returns without a failure; nil for any other
}

// shaped is the client's request as the call has it, before it is written for its provider.
func (t *Attempt) shaped() (*chat.Request, error) {
	req := t.View.Request
	shape := t.shape()
	if shape == nil {
		return req, nil
	}
	return t.View.Config.Dialects[req.Dialect].(wire.Shaper).Shape(req, shape) //nolint:forcetypeassert // schemas are for those alone
}

// shape is what the call changes of the client's request; nil for nothing.
func (t *Attempt) shape() *wire.Shape {
	if t.Plan == nil || t.Plan.Shape == nil && len(t.Correction) == 0 {
		return nil
	}
	if len(t.Correction) == 0 {
		return t.Plan.Shape
	}
	var s wire.Shape
	if t.Plan.Shape != nil {
		s = *t.Plan.Shape
	} else {
		s.KeepFormat = true
	}
	if t.View.StoredAt(&t.To) { // instructions are not stored: who continues from the answer continues without the failed one
		s.Guide = withCorrection(s.Guide, t.Correction)
		return &s
	}
	s.Messages = t.Correction
	return &s
}

// withCorrection is a guide that holds what is put behind the messages.
func withCorrection(guide string, correction []chat.Message) string {
	var b strings.Builder
	b.WriteString(guide)
	for i := range correction {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		if correction[i].Role == chat.RoleAssistant {
			b.WriteString("You have answered before, with:\n\n")
		}
		for _, p := range correction[i].Parts {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// withoutProfileSchema is a request without its profile's schema, where the attempt itself has one.
func (t *Attempt) withoutProfileSchema(req *chat.Request) *chat.Request {
	if !t.HasSchema || req.Profile == nil || len(req.Profile.Default.Schema) == 0 {
		return req
	}
	less, p := *req, *req.Profile
	p.Default.Schema, p.Default.SchemaName, p.Default.SchemaNote = nil, "", ""
	less.Profile = &p
	return &less
}

// withoutNote leaves the schema's note out of what the provider's format has no place for: the gateway added it, not the client.
func (t *Attempt) withoutNote(degraded []string) []string {
	if t.Plan == nil || t.Plan.Shape == nil || t.Plan.Shape.Note == "" {
		return degraded
	}
	return slices.DeleteFunc(slices.Clone(degraded), func(name string) bool { return name == "description" })
}
