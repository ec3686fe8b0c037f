package structured

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Validation is the result of checking an answer against a schema.
type Validation struct {
	JSON     []byte   // the JSON found in the answer, valid or not; nil if there is none
	Issues   []string // what is wrong, each with its path; empty if the answer is valid
	Repaired bool     // syntax errors were corrected
}

// Valid reports whether the answer follows the schema.
func (v Validation) Valid() bool { return v.JSON != nil && len(v.Issues) == 0 }

// Issues of answers without usable JSON.
const (
	noJSON      = "the answer holds no JSON that can be read"
	wasCut      = "the answer was cut off before its end"
	wasRefused  = "the model refused to answer"
	tooLong     = "the answer is too long to be checked"
	notOnlyJSON = "the answer is not JSON alone"
)

// Check extracts the JSON answer from a model's text and validates it. Candidates are the whole text if it is JSON, then fenced blocks, then
// objects in the text (or arrays, if the schema is of an array). Common syntax errors are repaired. The first valid candidate is the answer,
// or the first candidate if none is valid. A nested object is never taken for the answer, and an answer that was cut off is never
// completed. JSON keeps its bytes, and numbers all their digits.
//
// If the provider was sent a wrapper object around the schema, the answer is taken out of it. If the client asked for an enum as plain text,
// Validation.JSON is the value without quotes.
//
// For a Strict schema only the whole text, or a single fenced block around all of it, is accepted, without repairs.
func (p *Plan) Check(answer []byte, stop chat.StopReason) Validation {
	switch {
	case len(answer) > maxAnswerBytes:
		return Validation{Issues: []string{tooLong}}
	case stop == chat.StopRefusal:
		return Validation{Issues: []string{wasRefused}}
	}
	text, cut := bytes.TrimSpace(answer), IsCut(stop)
	if p.schema.strict {
		return p.checkStrict(text, cut)
	}
	if p.wrapper != nil {
		if v := p.checkWrapped(text, cut); v.Valid() {
			return p.unquoted(v)
		}
	}
	if p.enumText && !cut {
		if v := p.checkBareText(text); v.Valid() {
			return v
		}
	}
	return p.unquoted(p.firstValid(text, cut))
}

// IsCut reports whether an answer ended at a token limit.
func IsCut(stop chat.StopReason) bool { return stop == chat.StopLength || stop == chat.StopContext }

// firstValid validates the candidates in a text: it returns the first valid one, or the first one if none is valid.
func (p *Plan) firstValid(text []byte, cut bool) Validation {
	var first *Validation
	tries := 0
	for c := range candidates(text, p.schema.kind, cut) {
		v := p.validated(c)
		if v.Valid() {
			return v
		}
		if first == nil {
			first = &v
		}
		if tries++; tries == maxValidated {
			break
		}
	}
	switch {
	case first != nil:
		return *first
	case cut:
		return Validation{Issues: []string{wasCut}}
	}
	return Validation{Issues: []string{noJSON}}
}

// maxValidated is how many candidates of a text are validated.
const maxValidated = 8

// checkStrict validates a text that must be nothing but the answer.
func (p *Plan) checkStrict(text []byte, cut bool) Validation {
	kind := p.schema.kind
	switch {
	case cut && isOneValue(text, kind):
		return Validation{JSON: text, Issues: []string{wasCut}}
	case cut:
		return Validation{Issues: []string{wasCut}}
	case isOneValue(text, kind):
		return p.validated(candidate{json: text})
	}
	if inner := onlyFence(text); isOneValue(inner, kind) {
		return p.validated(candidate{json: inner})
	}
	for c := range candidates(text, kind, cut) {
		if !c.repaired {
			return Validation{Issues: []string{notOnlyJSON}}
		}
	}
	return Validation{Issues: []string{noJSON}}
}

// validated checks one candidate.
func (p *Plan) validated(c candidate) Validation {
	v := Validation{JSON: c.json, Repaired: c.repaired, Issues: p.schema.validate(c.json)}
	if len(v.Issues) == 0 || !p.dropNulls { // a valid answer stays unchanged
		return v
	}
	if b := p.schema.dropNulls(c.json); !bytes.Equal(b, c.json) {
		v.JSON, v.Issues = b, p.schema.validate(b)
	}
	return v
}

// isOneValue reports whether a text is one JSON value of a kind, or of any kind for jsonx.Invalid. A scalar counts in place of an object or
// array, so that the wrong type is reported.
func isOneValue(text []byte, kind jsonx.Kind) bool {
	v, err := jsonx.Parse(text)
	if err != nil {
		return false
	}
	switch kind {
	case jsonx.Invalid:
		return true
	case jsonx.Object, jsonx.Array:
		return v.Kind() == kind || v.Kind() != jsonx.Object && v.Kind() != jsonx.Array // a scalar
	case jsonx.Null, jsonx.Bool, jsonx.Number, jsonx.String:
	}
	return true
}

// isDelimited reports whether a JSON value has a closing delimiter, so that a cut cannot have shortened it, as it can a number.
func isDelimited(text []byte) bool {
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}
