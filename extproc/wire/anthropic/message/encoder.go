package message

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// NewEncoder returns the encoder of one answer for a Messages client. It writes nothing for events of kind Error: the caller writes the
// client's error with Error.
func NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o, quoted: o.QuotedModel()}
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e}
}

// member is a member of the message: its key and its JSON.
type member struct {
	key  string
	json []byte
}

// envelope is the common state of both encoders.
type envelope struct {
	wire.DegradedNames
	opts     wire.Options
	blocks   blocks
	ended    bool   // nothing may follow
	quoted   []byte // opts.Model as a JSON string
	id       string
	model    string
	usage    chat.Usage
	ownUsage []byte          // the provider's own usage, if it speaks this dialect
	tier     string          // another dialect's service tier, translated
	members  []member        // of this dialect only
	reason   chat.StopReason // "" until known
	sequence []byte          // the stop sequence that matched
	called   bool            // a tool was called
	refused  bool            // the model refused in its text
	own      []byte          // the gateway's own member
}

// Attach keeps the gateway's own member until the message, or the event that ends a stream, is written.
func (e *envelope) Attach(dst, own []byte) []byte {
	e.own = own
	return dst
}

// start sets the answer's id and model. Ids of other dialects have another syntax, so the gateway generates one.
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

// isOtherChoice reports whether an event belongs to a choice after the first. This dialect has one choice.
func (e *envelope) isOtherChoice(ev *chat.Event) bool {
	if ev.Choice > 0 {
		e.Degrade("choices")
	}
	return ev.Choice > 0
}

// collect adds content to its block, and updates the state for the stop reason.
func (e *envelope) collect(ev *chat.Event) {
	e.called = e.called || ev.Kind == chat.ToolStart
	e.refused = e.refused || ev.Kind == chat.Refusal
	e.blocks.add(ev)
}

// addUsage adds a usage report.
func (e *envelope) addUsage(ev *chat.Event) {
	wire.MergeUsage(&e.usage, &e.ownUsage, ev, e.opts.Same)
}

// isContent reports whether an extra is a block or belongs to one. Other extras become members of the message, or are named as degraded.
func (e *envelope) isContent(ev *chat.Event) bool {
	switch {
	case len(ev.Cites) > 0 && !e.opts.Same:
		e.addCitations(ev)
	case !e.opts.Same:
		e.translateExtra(ev)
	case ev.ID == chat.ServiceTier || ev.ID == serverToolUse && len(ev.Text) == 0: // part of the usage
	case len(ev.Text) == 0:
		e.Degrade(ev.ID)
	case ev.ID == container || ev.ID == contextManagement || ev.ID == stopDetails:
		e.members = append(e.members, member{ev.ID, bytes.Clone(ev.Text)})
	default:
		return true
	}
	return false
}

// translateExtra translates an extra of another dialect, if there is an equivalent.
func (e *envelope) translateExtra(ev *chat.Event) {
	if ev.ID == chat.ServiceTier {
		switch string(ev.Text) {
		case `"default"`:
			e.tier = "standard"
			return
		case `"priority"`:
			e.tier = "priority"
			return
		}
	}
	if !ev.Redundant {
		e.Degrade(ev.ID)
	}
}

// appendMember appends a member of the message, with a comma before it, if the answer has it.
func (e *envelope) appendMember(dst []byte, key string) []byte {
	for i := range slices.Backward(e.members) { // the last counts
		if m := &e.members[i]; m.key == key {
			dst = append(append(append(dst, `,"`...), key...), `":`...)
			return wire.AppendLine(dst, m.json)
		}
	}
	return dst
}

func (e *envelope) stop(ev *chat.Event) {
	e.reason = ev.Reason
	e.sequence = append(e.sequence[:0], ev.Text...)
}

// appendRaw appends a provider's own bytes, with the client's name of the model.
func (e *envelope) appendRaw(dst, raw []byte, at chat.Span) []byte {
	return wire.AppendQuoted(dst, raw, at, e.quoted)
}

// appendHead appends a message's members up to its content.
func (e *envelope) appendHead(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonx.AppendString(dst, e.id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = jsonx.AppendString(dst, e.model)
	return append(dst, `,"content":[`...)
}

// appendStop appends the members stop_reason and stop_sequence.
func (e *envelope) appendStop(dst []byte) []byte {
	dst = append(dst, `"stop_reason":"`...)
	dst = append(dst, e.stopReason()...)
	dst = append(dst, `","stop_sequence":`...)
	if e.reason != chat.StopSequence || len(e.sequence) == 0 {
		return append(dst, "null"...)
	}
	return jsonx.AppendString(dst, e.sequence)
}

// stopReason returns Anthropic's name of the stop reason, which is tool_use for every turn with tool calls.
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
	dst = append(dst, `"usage":`...)
	if e.ownUsage != nil {
		return append(dst, e.ownUsage...)
	}
	u := &e.usage
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input, 10)
	dst = append(dst, `,"cache_creation_input_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite+u.CacheWrite1h, 10)
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Cached, 10)
	if u.CacheWrite+u.CacheWrite1h > 0 {
		dst = strconv.AppendInt(append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...), u.CacheWrite, 10)
		dst = strconv.AppendInt(append(dst, `,"ephemeral_1h_input_tokens":`...), u.CacheWrite1h, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	if u.Reasoning > 0 && !u.ReasoningEstimated {
		dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"thinking_tokens":`...), u.Reasoning, 10)
		dst = append(dst, '}')
	}
	if e.tier != "" {
		dst = append(append(append(dst, `,"service_tier":"`...), e.tier...), '"')
	}
	return append(dst, '}')
}

// Error appends the error as an event of the stream.
func (e *streamEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	dst = append(dst, "event: error\ndata: "...)
	dst = AppendError(dst, f, e.opts.RequestID)
	return append(dst, "\n\n"...)
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	return AppendError(dst, f, e.opts.RequestID)
}
