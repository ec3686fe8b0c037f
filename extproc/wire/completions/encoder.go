package completions

import (
	"encoding/json"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
)

// completion is an answer, or a chunk of one.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`

	Own json.RawMessage `json:"bardo,omitempty"`
}

type choice struct {
	Text     string  `json:"text"`
	Index    int     `json:"index"`
	Logprobs *string `json:"logprobs"` // always null
	Finish   *string `json:"finish_reason"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// envelope is the common state of both encoders. passes is set if the provider was called in this format: its bytes pass unchanged.
type envelope struct {
	opts     wire.Options
	id       string
	model    string
	usage    chat.Usage
	degraded []string
	own      []byte // the gateway's own member of the body

	passes bool
}

func (e *envelope) degrade(name string) {
	e.degraded = wire.AppendDegraded(e.degraded, name)
}

// Degraded lists what this format cannot express of the answer.
func (e *envelope) Degraded() []string { return e.degraded }

// note records ids, usage, and what the format cannot express.
func (e *envelope) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest is text or has no content
	case chat.Start:
		if e.model == "" {
			e.model = ev.Model
		}
	case chat.UsageInfo:
		e.usage.Merge(ev.Usage)
	case chat.Thought, chat.Redacted:
		e.degrade("thinking")
	case chat.ToolStart:
		e.degrade("tool_calls")
	case chat.Extra:
		if !ev.Redundant && ev.ID != chat.ServiceTier { // a member that this format never had
			e.degrade(ev.ID)
		}
	}
}

func (e *envelope) new(choices ...choice) completion {
	return completion{ID: e.id, Object: "text_completion", Created: e.opts.Created, Model: e.model, Choices: choices}
}

func (e *envelope) counted() *usage {
	in := e.usage.TotalInput()
	return &usage{Prompt: in, Completion: e.usage.Output, Total: in + e.usage.Output}
}

// finish returns this format's name of a stop reason.
func finish(r chat.StopReason) *string {
	word := "stop"
	switch r {
	case chat.StopLength, chat.StopContext:
		word = "length"
	case chat.StopRefusal:
		word = "content_filter"
	case chat.StopEnd, chat.StopTool, chat.StopSequence, chat.StopPause:
	}
	return &word
}

// appendJSON appends a completion. Its fields are strings and numbers, so marshalling cannot fail.
func appendJSON(dst []byte, c completion) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		return dst
	}
	return append(dst, b...)
}

// streamEncoder writes chunks of text.
type streamEncoder struct{ envelope }

// Append writes an event for the client.
func (e *streamEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.passes && (ev.Raw != nil || ev.Tail) {
		if ev.Raw == nil || ev.UsageChunk && !e.opts.ShowUsage {
			return dst
		}
		return e.appendRaw(dst, ev)
	}
	switch ev.Kind {
	case chat.Text, chat.Refusal:
		if len(ev.Text) == 0 {
			return dst
		}
		return e.event(dst, e.new(choice{Text: string(ev.Text), Index: ev.Choice}))
	case chat.Stop:
		return e.event(dst, e.new(choice{Index: ev.Choice, Finish: finish(ev.Reason)}))
	case chat.End:
		if e.opts.ShowUsage {
			c := e.new()
			c.Choices, c.Usage = []choice{}, e.counted()
			dst = e.event(dst, c)
		}
		return append(dst, "data: [DONE]\n\n"...)
	default:
		e.note(ev)
	}
	return dst
}

// Attach appends a chunk without choices, like the usage chunk.
func (e *streamEncoder) Attach(dst, own []byte) []byte {
	c := e.new()
	c.Choices, c.Own = []choice{}, own
	return e.event(dst, c)
}

func (e *streamEncoder) event(dst []byte, c completion) []byte {
	return append(appendJSON(append(dst, "data: "...), c), "\n\n"...)
}

// Error appends the error as a frame of the stream.
func (e *streamEncoder) Error(dst []byte, f *fault.Fault) []byte {
	dst = append(dst, "data: "...)
	return append(append(dst, openai.Dialect{}.Error(f, e.opts.RequestID)...), "\n\n"...)
}

// bodyEncoder collects the choices' texts.
type bodyEncoder struct {
	envelope
	choices []choice
	text    [][]byte // of the choices
	raw     []byte   // the provider's own body
}

// Append collects events; the End event writes the body.
func (e *bodyEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.passes && ev.Raw != nil {
		e.raw = e.appendRaw(e.raw[:0], ev)
	}
	if e.raw != nil {
		if ev.Kind != chat.End {
			return dst
		}
		return wire.AppendWithOwn(dst, e.raw, e.own)
	}
	switch ev.Kind {
	case chat.Text, chat.Refusal:
		i := e.choice(ev.Choice)
		e.text[i] = append(e.text[i], ev.Text...)
	case chat.Stop:
		e.choices[e.choice(ev.Choice)].Finish = finish(ev.Reason)
	case chat.End:
		e.choice(0)
		for i := range e.choices {
			e.choices[i].Text = string(e.text[i])
		}
		c := e.new(e.choices...)
		c.Usage, c.Own = e.counted(), e.own
		return appendJSON(dst, c)
	default:
		e.note(ev)
	}
	return dst
}

// Attach keeps the gateway's own member until the body is written.
func (e *bodyEncoder) Attach(dst, own []byte) []byte {
	e.own = own
	return dst
}

// maxChoices is the maximum number of choices in an answer.
const maxChoices = 128

// choice returns the index of a choice, and creates the choice if necessary.
func (e *bodyEncoder) choice(i int) int {
	i = max(0, min(i, maxChoices-1))
	for len(e.choices) <= i {
		e.choices = append(e.choices, choice{Index: len(e.choices)})
		e.text = append(e.text, nil)
	}
	return i
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	return append(dst, openai.Dialect{}.Error(f, e.opts.RequestID)...)
}
