package fake

import (
	"encoding/json"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/example"
)

// Flaw is what is wrong with the answer to a request for a schema.
type Flaw uint8

// The flaws. Those of the answer's values need a schema that has what they break: numbers, enumerations, properties.
const (
	Flawless      Flaw = iota
	WrongRange         // every number is far below its minimum, else far above its maximum, else far below zero
	WrongEnum          // no enumeration has the value that is given for it
	MissingField       // the first required property is not there
	ExtraField         // a property is there that nobody asked for
	ExtraProse         // a sentence before it and, of text, one behind it
	Fenced             // in a block of code; of a tool's answer, in text instead of the call
	TwoObjects         // two of them, which differ
	TrailingComma      // before the last brace
	Truncated          // broken off, with the provider's reason to stop for an answer that grew too long
	ProseOnly          // a sentence instead of it
)

// The sentences of flawed answers.
const (
	before = "Here is what I found:"
	behind = "Tell me if I should look again."
	prose  = "I would rather not put this in JSON."
)

// instance is a value that a schema allows, but for the flaw.
func (f Flaw) instance(schema json.RawMessage, variant int) string {
	return example.Of(schema, example.Options{
		Variant: variant, OutOfRange: f == WrongRange, OffEnum: f == WrongEnum, Incomplete: f == MissingField,
	})
}

// pieceOfJSON is how many characters of an answer by a schema a stream has in one piece.
const pieceOfJSON = 12

// formed is the behaviour with an answer in the form that a request asks for, unless it says itself what to answer.
func (b *Behaviour) formed(q *asked) *Behaviour {
	if q.form == nil || b.Text != "" || b.Tokens > 0 || len(b.ToolCalls) > 0 {
		return b
	}
	f := *b
	f.Piece = pieceOfJSON
	first, second := or(b.JSON, b.Flaw.instance(q.form.Schema, 0)), b.Flaw.instance(q.form.Schema, 1)
	switch b.Flaw {
	case ExtraField:
		first = strings.TrimSuffix(first, "}") + `,"nobody_asked":1}`
		first = strings.Replace(first, "{,", "{", 1) // it had none
	case TrailingComma:
		first = strings.TrimSuffix(first, "}") + ",}"
	case Truncated:
		first = string([]rune(first)[:len([]rune(first))*2/3])
		f.Stop = q.form.Cut
	case Flawless, WrongRange, WrongEnum, MissingField, ExtraProse, Fenced, TwoObjects, ProseOnly:
	}
	if word := ""; q.form.Word && json.Unmarshal([]byte(first), &word) == nil {
		first = word
	}
	if q.form.Tool != "" && b.Flaw != Fenced && b.Flaw != ProseOnly {
		f.call(q.form.Tool, first, second)
	} else {
		f.say(q.form, first, second)
	}
	return &f
}

// call answers by a call of the tool.
func (b *Behaviour) call(tool, first, second string) {
	b.ToolCalls = []ToolCall{{Name: tool, Args: first, Pieces: 1 + len(first)/pieceOfJSON}}
	switch b.Flaw { //nolint:exhaustive // the others are in the arguments
	case ExtraProse:
		b.Text = before
	case TwoObjects:
		b.ToolCalls = append(b.ToolCalls, ToolCall{Name: tool, Args: second, Pieces: 2})
	}
}

// say answers in text.
func (b *Behaviour) say(q *check.Form, first, second string) {
	b.Text = first
	switch {
	case b.Flaw == ProseOnly:
		b.Text = prose
	case b.Flaw == TwoObjects:
		b.Text = first + "\n" + second
	case b.Flaw == ExtraProse:
		b.Text = before + "\n" + first + "\n" + behind
	case b.Flaw == Fenced, q.Fenced && b.Flaw != Truncated:
		b.Text = "```json\n" + first + "\n```"
	}
}

// input is a call's arguments as the object that some formats have for them: those that were broken off are none.
func (c *ToolCall) input() string {
	if c.Args == "" || c.broken() {
		return "{}"
	}
	return c.Args
}

// broken reports whether an object was broken off. A test's own nonsense goes out as it is.
func (c *ToolCall) broken() bool {
	return strings.HasPrefix(c.Name, check.ToolPrefix) && !json.Valid([]byte(c.Args))
}
