package reasoning

import (
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// maxKept is how much text of one answer's reasoning is kept, in bytes.
const maxKept = 1 << 20

// Recorder gathers what the events of an answer show of its reasoning. Not safe for concurrent use.
type Recorder struct {
	dialect Dialect
	by      policy.ProviderID
	model   policy.ModelID

	text      []byte
	size      int64 // bytes of thoughts, kept or not
	block     int   // of the last thought
	shows     Visibility
	hidden    bool // there was reasoning that is not shown
	called    bool
	between   bool // it thought after a call
	truncated bool
}

// NewRecorder gathers the reasoning of an answer that is given in some dialect.
func NewRecorder(d Dialect, to *policy.Resolution) *Recorder {
	return &Recorder{dialect: d, by: to.Provider, model: to.Model, shows: d.Shows}
}

// Names of extras that tell what reasoning is, in the formats that have them.
const (
	ownWords = "reasoning_text"    // Responses: what follows is the model's own words
	details  = "reasoning_details" // OpenRouter's array
)

// Add takes in an event, of which it keeps nothing but copies. Only the first choice of an answer is kept.
func (r *Recorder) Add(ev *chat.Event) {
	switch ev.Kind {
	case chat.Thought:
		r.think(ev)
	case chat.Signature, chat.Redacted:
		r.hidden = true
		r.between = r.between || r.called
	case chat.ToolStart:
		r.called = true
	case chat.Extra:
		r.learn(ev)
	case chat.Start, chat.Text, chat.Refusal, chat.ToolArgs, chat.BlockStop, chat.Stop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
}

func (r *Recorder) learn(ev *chat.Event) {
	switch ev.ID {
	case ownWords:
		r.shows = Visible
	case details:
		if v := shown(ev.Text); v != None && v != Opaque {
			r.shows = v
		}
	}
}

// think keeps a piece of a thought. Blocks of thinking become paragraphs.
func (r *Recorder) think(ev *chat.Event) {
	r.between = r.between || r.called
	r.size += int64(len(ev.Text))
	if ev.Choice > 0 {
		return
	}
	if len(r.text) > 0 && ev.Index != r.block {
		r.keep([]byte("\n\n"))
	}
	r.block = ev.Index
	r.keep(ev.Text)
}

func (r *Recorder) keep(text []byte) {
	if r.truncated {
		return
	}
	if room := maxKept - len(r.text); len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) { // between characters
			room--
		}
		text, r.truncated = text[:room], true
	}
	r.text = append(r.text, text...)
}

// Chain is what was gathered, with what the answer took. Where its provider did not count reasoning, it is estimated (D-42).
func (r *Recorder) Chain(u *chat.Usage) Chain {
	c := Chain{
		Provider: r.by, Model: r.model, Tokens: u.Reasoning, Estimated: u.ReasoningEstimated, Truncated: r.truncated, Interleaved: r.between,
		Steps: []Step{},
	}
	if c.Tokens == 0 && r.size > 0 {
		c.Tokens, c.Estimated = Estimate(r.size, u.Output), true
	}
	switch {
	case len(r.text) > 0:
		text := string(r.text)
		c.Visibility, c.Content, c.Steps = r.shows, &text, Steps(text)
	case r.hidden || c.Tokens > 0:
		c.Visibility = Opaque
	}
	c.Cost = Cost{Tokens: c.Tokens, BilledAsOutput: r.dialect.BilledAsOutput, Discount: r.dialect.Discount}
	return c
}
