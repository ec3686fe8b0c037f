package review

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/jsonx"
)

// Validation is the result of checking a complete answer. One valid choice of several is enough for a client.
type Validation struct {
	Open     bool // no choice had to be checked
	Valid    bool // every checked choice follows the schema
	accepted int  // choices that the client may use
	Declined bool
	Choices  []structured.Validation // by choice
	Wrong    int                     // the first choice that does not follow the schema
	cut      bool                    // that choice was truncated by its maximum length
	Raw      []byte                  // that choice, else the first, as the model wrote it
}

// Validate checks a complete answer.
func (r *Review) Validate(f *Transcript) *Validation {
	if len(f.Texts) == 0 {
		f.Texts = make([]choiceText, 1)
	}
	j := &Validation{Open: true, Valid: true, Choices: make([]structured.Validation, len(f.Texts)), Raw: f.Texts[0].text}
	for i := range f.Texts {
		s := &f.Texts[i]
		if s.unchecked = s.skipsCheck(r.Schema.Builtin()); s.unchecked {
			j.accepted++
			continue
		}
		v := f.Plan.Check(s.text, s.stop)
		j.Open, j.Choices[i], j.Declined = false, v, j.Declined || s.refused
		switch {
		case v.Valid():
			j.accepted++
		case j.Valid:
			j.Valid, j.Wrong, j.Raw, j.cut = false, i, s.text, structured.IsCut(s.stop)
		}
	}
	return j
}

// Accepts reports whether an answer is sent. One valid choice is enough, unless the schema is strict. In JSON mode a truncated answer is sent as
// well, with its stop reason: a retry would be truncated again.
func (r *Review) Accepts(j *Validation) bool {
	return j.Open || j.Valid || r.Schema.IsAnyObject() && j.cut || !r.Config.Structured.Validate || j.accepted > 0 && !r.Schema.Strict()
}

// MaxRaw is the maximum size of a model's answer in an error, in bytes.
const MaxRaw = 16 << 10

// Details returns the details of an error: the schema, the issues, and the model's answer, truncated.
func (j *Validation) Details(schema string, retries int) string {
	b := jsonx.AppendString([]byte(`{"schema":`), schema)
	b = strconv.AppendInt(append(b, `,"retries":`...), int64(retries), 10)
	b = append(b, `,"issues":[`...)
	for i, issue := range j.Choices[j.Wrong].Issues {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, issue)
	}
	raw := j.Raw[:min(len(j.Raw), MaxRaw)]
	b = jsonx.AppendString(append(b, `],"raw":`...), bytes.ToValidUTF8(raw, nil))
	if len(raw) < len(j.Raw) {
		b = append(b, `,"truncated":true`...)
	}
	return string(append(b, '}'))
}

// Unchanged reports whether the answers are what the model wrote, byte for byte.
func (j *Validation) Unchanged(texts []choiceText) bool {
	for i := range j.Choices {
		if v := &j.Choices[i]; v.JSON != nil && !bytes.Equal(v.JSON, texts[i].text) {
			return false
		}
	}
	return true
}

// ValidateHeld validates a held answer. Without a schema any answer is valid.
func (r *Review) ValidateHeld(f *Transcript, held []chat.Event) *Validation {
	if f != nil {
		return r.Validate(f)
	}
	j := &Validation{Valid: true}
	for i := range held {
		switch ev := &held[i]; ev.Kind { //nolint:exhaustive // others are not validated
		case chat.Text:
			j.Raw = append(j.Raw, ev.Text...)
		case chat.ToolStart, chat.Refusal:
			j.Open = true
		case chat.Stop:
			j.Open = j.Open || ev.Reason == chat.StopPause
		}
	}
	j.Choices = []structured.Validation{{}}
	return j
}

// Text returns the answer's text; with a schema, the JSON that was found in it.
func (j *Validation) Text() []byte {
	if len(j.Choices) > 0 && j.Choices[0].JSON != nil {
		return j.Choices[0].JSON
	}
	return j.Raw
}
