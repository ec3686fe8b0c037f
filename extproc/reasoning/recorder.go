package reasoning

import (
	"bytes"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// maxRecorded is the limit of recorded reasoning of one answer, in bytes.
const maxRecorded = 1 << 20

// Recorder collects the reasoning of an answer from its events. Not safe for concurrent use.
type Recorder struct {
	dialect Dialect
	by      policy.ProviderID
	model   policy.ModelID

	text        []byte
	size        int64 // bytes of reasoning, recorded or not
	block       int   // block of the last Thought event
	visibility  Visibility
	hidden      bool // the answer has reasoning without text
	called      bool
	interleaved bool // reasoning continued after a tool call
	truncated   bool
}

// NewRecorder records an answer in a dialect.
func NewRecorder(d Dialect, to *policy.Resolution) *Recorder {
	return &Recorder{dialect: d, by: to.Provider, model: to.Model, visibility: d.Visibility}
}

// Names of Extra events about reasoning.
const (
	fullTextExtra = "reasoning_text"    // Responses: the reasoning is the full text, not a summary
	detailsExtra  = "reasoning_details" // OpenRouter's reasoning_details array
)

// Add records an event; it copies what it keeps. Only the text of the first choice is recorded.
func (r *Recorder) Add(ev *chat.Event) {
	switch ev.Kind {
	case chat.Thought:
		r.addThought(ev)
	case chat.Signature, chat.Redacted:
		r.hidden = true
		r.interleaved = r.interleaved || r.called
	case chat.ToolStart:
		r.called = true
	case chat.Extra:
		r.addExtra(ev)
	case chat.Start, chat.Text, chat.Refusal, chat.ToolArgs, chat.BlockStop, chat.Stop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
}

func (r *Recorder) addExtra(ev *chat.Event) {
	switch ev.ID {
	case fullTextExtra:
		r.visibility = Visible
	case detailsExtra:
		if v := detailsVisibility(ev.Text); v != None && v != Opaque {
			r.visibility = v
		}
	}
}

// addThought records a piece of reasoning. Blocks become paragraphs.
func (r *Recorder) addThought(ev *chat.Event) {
	r.interleaved = r.interleaved || r.called
	r.size += int64(len(ev.Text))
	if ev.Choice > 0 {
		return
	}
	if len(r.text) > 0 && ev.Index != r.block {
		r.append([]byte("\n\n"))
	}
	r.block = ev.Index
	r.append(ev.Text)
}

func (r *Recorder) append(text []byte) {
	if r.truncated {
		return
	}
	if room := maxRecorded - len(r.text); len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) { // cut at a character boundary
			room--
		}
		text, r.truncated = text[:room], true
	}
	r.text = append(r.text, text...)
}

// Chain is the recorded reasoning with the answer's usage. Tokens are estimated if the provider did not count them (D-42).
func (r *Recorder) Chain(u *chat.Usage) Chain {
	c := Chain{
		Provider: r.by, Model: r.model, Tokens: u.Reasoning, Estimated: u.ReasoningEstimated, Truncated: r.truncated, Interleaved: r.interleaved,
		Steps: []Step{},
	}
	if c.Tokens == 0 && r.size > 0 {
		c.Tokens, c.Estimated = Estimate(r.size, u.Output), true
	}
	switch {
	case len(r.text) > 0:
		text := string(r.text)
		c.Visibility, c.Content, c.Steps = r.visibility, &text, Steps(text)
	case r.hidden || c.Tokens > 0:
		c.Visibility = Opaque
	}
	c.Cost = Cost{Tokens: c.Tokens, BilledAsOutput: r.dialect.BilledAsOutput, Discount: r.dialect.Discount}
	return c
}

// detailsVisibility is the visibility by the types in an array of reasoning_details; None if it has none of them.
func detailsVisibility(details []byte) Visibility {
	switch {
	case bytes.Contains(details, []byte(`"reasoning.text"`)):
		return Visible
	case bytes.Contains(details, []byte(`"reasoning.summary"`)):
		return Summarized
	case bytes.Contains(details, []byte(`"reasoning.encrypted"`)):
		return Opaque
	}
	return None
}
