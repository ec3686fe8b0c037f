package review

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/jsonx"
)

// Validation is what the check of a complete answer came to. Of several choices the client takes the one it likes.
type Validation struct {
	Open     bool // no choice is an answer to be checked
	Valid    bool // every choice that is to be checked follows the form
	accepted int  // choices that the client may take
	Declined bool
	Choices  []structured.Validation // by choice
	Wrong    int                     // the first choice that does not follow the form
	cut      bool                    // that choice was cut off where it grew too long
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

// Accepts reports whether an answer goes to the client as it was read. One choice that follows the form is enough, but of a form that is
// strict. In JSON mode, so does an answer that was cut off where it grew too long, and says so: it would be cut off again.
func (r *Review) Accepts(j *Validation) bool {
	return j.Open || j.Valid || r.Schema.IsAnyObject() && j.cut || !r.Config.Structured.Validate || j.accepted > 0 && !r.Schema.Strict()
}

// MaxRaw is how much of a model's answer stands in an error.
const MaxRaw = 16 << 10

// Details tell a caller what its model said in the place of an answer, and what is wrong with that.
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
func (j *Validation) Unchanged(said []choiceText) bool {
	for i := range j.Choices {
		if v := &j.Choices[i]; v.JSON != nil && !bytes.Equal(v.JSON, said[i].text) {
			return false
		}
	}
	return true
}

// ValidateHeld is what the check of a complete answer comes to. One without a form is whatever it says.
func (r *Review) ValidateHeld(f *Transcript, held []chat.Event) *Validation {
	if f != nil {
		return r.Validate(f)
	}
	j := &Validation{Valid: true}
	for i := range held {
		switch ev := &held[i]; ev.Kind { //nolint:exhaustive // the rest is no word of it
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

// Text is what an answer says, by its form where it has one.
func (j *Validation) Text() []byte {
	if len(j.Choices) > 0 && j.Choices[0].JSON != nil {
		return j.Choices[0].JSON
	}
	return j.Raw
}
