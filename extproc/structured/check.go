package structured

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Verdict is what an answer is worth.
type Verdict struct {
	JSON     []byte   // the answer as JSON, valid or not; nil: none was found
	Issues   []string // what is wrong with it, each with its place; none: it follows the form
	Repaired bool     // it is not quite what the model wrote
}

// Valid reports whether the answer follows the form.
func (v Verdict) Valid() bool { return v.JSON != nil && len(v.Issues) == 0 }

// What is said of answers that hold no answer.
const (
	noJSON     = "the answer holds no JSON that can be read"
	wasCut     = "the answer was cut off before its end"
	wasRefused = "the model refused to answer"
	tooLong    = "the answer is too long to be looked at"
	notAlone   = "the answer is not JSON alone"
)

// Check finds the answer in what a model said, and says whether it follows the form. The answer is the whole text where that is JSON;
// else what stands in a fenced block; else an object in the text (or an array, where the form is one). Each may have common faults, which
// are repaired. Of several, the first that follows the form counts, and if none does, the first. What is inside an object is never taken
// for the answer, nor is one completed that was cut off. JSON keeps its bytes, and its numbers their digits.
//
// A form that was sent as the only member of an object is found in such an object. Where the client asked for a word, Verdict.JSON is that
// word without quotes.
//
// Of a form that is Strict, only the whole text counts, or one fenced block around all of it, and only as it is.
func (p *Plan) Check(answer []byte, stop chat.StopReason) Verdict {
	switch {
	case len(answer) > mostAnswer:
		return Verdict{Issues: []string{tooLong}}
	case stop == chat.StopRefusal:
		return Verdict{Issues: []string{wasRefused}}
	}
	text, cut := bytes.TrimSpace(answer), IsCut(stop)
	if p.form.strict {
		return p.strictly(text, cut)
	}
	if p.outer != nil {
		if v := p.unwrapped(text, cut); v.Valid() {
			return p.asWord(v)
		}
	}
	if p.word && !cut {
		if v := p.wordIn(text); v.Valid() {
			return v
		}
	}
	return p.asWord(p.found(text, cut))
}

// IsCut reports whether an answer was cut off where it grew too long.
func IsCut(stop chat.StopReason) bool { return stop == chat.StopLength || stop == chat.StopContext }

// found is the verdict on the first piece of a text that follows the form, else on the first.
func (p *Plan) found(text []byte, cut bool) Verdict {
	var first *Verdict
	tries := 0
	for c := range candidates(text, p.form.kind, cut) {
		v := p.judged(c)
		if v.Valid() {
			return v
		}
		if first == nil {
			first = &v
		}
		if tries++; tries == mostJudged {
			break
		}
	}
	switch {
	case first != nil:
		return *first
	case cut:
		return Verdict{Issues: []string{wasCut}}
	}
	return Verdict{Issues: []string{noJSON}}
}

// mostJudged is how many pieces of a text are checked.
const mostJudged = 8

// strictly is the verdict on a text of which nothing is left out.
func (p *Plan) strictly(text []byte, cut bool) Verdict {
	kind := p.form.kind
	switch {
	case cut && whole(text, kind):
		return Verdict{JSON: text, Issues: []string{wasCut}}
	case cut:
		return Verdict{Issues: []string{wasCut}}
	case whole(text, kind):
		return p.judged(candidate{json: text})
	}
	if inner := fencedAlone(text); whole(inner, kind) {
		return p.judged(candidate{json: inner})
	}
	for c := range candidates(text, kind, cut) {
		if !c.repaired {
			return Verdict{Issues: []string{notAlone}}
		}
	}
	return Verdict{Issues: []string{noJSON}}
}

// judged is the verdict on one piece of JSON.
func (p *Plan) judged(c candidate) Verdict {
	v := Verdict{JSON: c.json, Repaired: c.repaired, Issues: p.form.validate(c.json)}
	if len(v.Issues) == 0 || !p.undo { // an answer that is valid as it is stays so
		return v
	}
	if b := p.form.undone(c.json); !bytes.Equal(b, c.json) {
		v.JSON, v.Issues = b, p.form.validate(b)
	}
	return v
}

// whole reports whether a text is one JSON value of a kind. A kind that is not there is any.
func whole(text []byte, kind jsonx.Kind) bool {
	v, err := jsonx.Parse(text)
	if err != nil {
		return false
	}
	switch kind {
	case jsonx.Invalid:
		return true
	case jsonx.Object, jsonx.Array:
		return v.Kind() == kind || v.Kind() != jsonx.Object && v.Kind() != jsonx.Array // a wrong kind is a finding too
	case jsonx.Null, jsonx.Bool, jsonx.Number, jsonx.String:
	}
	return true
}

// endsItself reports whether a text of JSON has an end of its own: with more of it, it would have been none.
func endsItself(text []byte) bool {
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}
