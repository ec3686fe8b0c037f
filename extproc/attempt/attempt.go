// Package attempt makes one call of one candidate for a request. It encodes the body from the request (never from an earlier attempt's), takes a key
// of the provider, sends the call through Envoy's egress listener or by a stream.Caller, and reads the answer chunk by chunk.
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
	View        *request.View // the request; read-only
	To          policy.Resolution
	Plan        *structured.Plan   // how the answer's schema is enforced; nil: as in the client's request
	HasSchema   bool               // the answer has a schema: the profile's own is omitted
	Substituted string             // X-Bardo-Degraded entry for what replaces the client's own schema; "" for nothing
	Correction  []chat.Message     // appended to the messages: failed answers and their errors
	Sent        *chat.Request      // the client's request as sent in this call; set by Write
	Sealed      *e2ee.Call         // the encryption of a sealed request; set by Write; nil for any other
	Paid        policy.Micro       // the amount signed for the call, if its provider is paid per call; set by Do
	Proof       *attestation.Proof // of an answer that must be attested: set by Write, verified when Do returns without a failure; nil for any other
}

// shaped returns the client's request as changed for this call, before it is encoded for its provider.
func (t *Attempt) shaped() (*chat.Request, error) {
	req := t.View.Request
	shape := t.shape()
	if shape == nil {
		return req, nil
	}
	return t.View.Config.Dialects[req.Dialect].(wire.Shaper).Shape(req, shape) //nolint:forcetypeassert // schemas are for those alone
}

// shape returns what the call changes in the client's request; nil for nothing.
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
	if t.View.StoredAt(&t.To) { // instructions are not stored: a later request continues without the failed answer
		s.Guide = withCorrection(s.Guide, t.Correction)
		return &s
	}
	s.Messages = t.Correction
	return &s
}

// withCorrection returns guide with the correction appended.
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

// withoutProfileSchema returns the request without its profile's schema, if the attempt itself has one.
func (t *Attempt) withoutProfileSchema(req *chat.Request) *chat.Request {
	if !t.HasSchema || req.Profile == nil || len(req.Profile.Default.Schema) == 0 {
		return req
	}
	less, p := *req, *req.Profile
	p.Default.Schema, p.Default.SchemaName, p.Default.SchemaNote = nil, "", ""
	less.Profile = &p
	return &less
}

// withoutNote removes the schema's note from the degraded entries: the gateway added it, not the client.
func (t *Attempt) withoutNote(degraded []string) []string {
	if t.Plan == nil || t.Plan.Shape == nil || t.Plan.Shape.Note == "" {
		return degraded
	}
	return slices.DeleteFunc(slices.Clone(degraded), func(name string) bool { return name == "description" })
}
