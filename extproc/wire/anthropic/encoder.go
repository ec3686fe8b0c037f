package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// NewEncoder writes one answer for a Messages client. Events of kind Error write nothing: what a client may see of one
// is said with Error.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o}
	if o.Model != "" {
		e.quoted = jsonx.AppendString(nil, o.Model)
	}
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e}
}

// envelope is what both encoders know of an answer.
type envelope struct {
	wire.Losses
	opts     wire.Options
	blocks   blocks
	ended    bool   // nothing may follow
	quoted   []byte // opts.Model as a JSON string
	id       string
	model    string
	usage    chat.Usage
	reason   chat.StopReason // "" until known
	sequence []byte          // the stop sequence that matched
	called   bool            // a tool was called
	refused  bool            // the model refused in words
}

// start learns the answer's names. A provider of another dialect has ids of another form, so the answer gets one of
// ours.
func (e *envelope) start(ev *chat.Event) {
	e.id = ev.ID
	if !strings.HasPrefix(e.id, "msg_") {
		e.id = "msg_" + strings.TrimPrefix(e.opts.RequestID, "req_")
	}
	e.model = ev.Model
	if e.opts.Model != "" {
		e.model = e.opts.Model
	}
}

// gather puts a piece of the answer into its block, and notes what it means for the reason to stop.
func (e *envelope) gather(ev *chat.Event) {
	e.called = e.called || ev.Kind == chat.ToolStart
	e.refused = e.refused || ev.Kind == chat.Refusal
	e.blocks.add(ev)
}

func (e *envelope) stop(ev *chat.Event) {
	e.reason = ev.Reason
	e.sequence = append(e.sequence[:0], ev.Text...)
}

// appendRaw appends a provider's own bytes, with the model's name as the client shall see it.
func (e *envelope) appendRaw(dst, raw []byte, at chat.Span) []byte {
	if e.quoted == nil || at.End <= at.Start || at.End > len(raw) || bytes.Equal(raw[at.Start:at.End], e.quoted) {
		return append(dst, raw...)
	}
	dst = append(dst, raw[:at.Start]...)
	dst = append(dst, e.quoted...)
	return append(dst, raw[at.End:]...)
}

// appendHead appends a message's members up to its content.
func (e *envelope) appendHead(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonx.AppendString(dst, e.id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = jsonx.AppendString(dst, e.model)
	return append(dst, `,"content":[`...)
}

// appendStop appends why the model stopped, as two members.
func (e *envelope) appendStop(dst []byte) []byte {
	dst = append(dst, `"stop_reason":"`...)
	dst = append(dst, e.stopReason()...)
	dst = append(dst, `","stop_sequence":`...)
	if e.reason != chat.StopSequence || len(e.sequence) == 0 {
		return append(dst, "null"...)
	}
	return jsonx.AppendString(dst, e.sequence)
}

// stopReason is what Anthropic calls the reason. A turn that called tools stops for them, whatever was said.
func (e *envelope) stopReason() string {
	switch e.reason {
	case chat.StopLength:
		return "max_tokens"
	case chat.StopTool:
		return "tool_use"
	case chat.StopRefusal:
		return "refusal"
	case chat.StopPause:
		return "pause_turn"
	case chat.StopContext:
		return "model_context_window_exceeded"
	case chat.StopEnd, chat.StopSequence:
	}
	switch {
	case e.called:
		return "tool_use"
	case e.refused:
		return "refusal"
	case e.reason == chat.StopSequence && len(e.sequence) > 0:
		return "stop_sequence"
	}
	return "end_turn"
}

func (e *envelope) appendUsage(dst []byte) []byte {
	u := &e.usage
	dst = append(dst, `"usage":{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input, 10)
	dst = append(dst, `,"cache_creation_input_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite+u.CacheWrite1h, 10)
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Cached, 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	return append(dst, '}')
}

// Error appends the error as an event of the stream.
func (e *streamEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	dst = append(dst, "event: error\ndata: "...)
	dst = appendError(dst, f, e.opts.RequestID)
	return append(dst, "\n\n"...)
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	return appendError(dst, f, e.opts.RequestID)
}
