package anthropic

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

// member is a member of the message: its key and its JSON.
type member struct {
	key  string
	json []byte
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
	ownUsage []byte          // the provider's own usage, if it speaks this dialect
	tier     string          // the service tier, if it was said in another dialect's words
	members  []member        // that only this dialect has
	reason   chat.StopReason // "" until known
	sequence []byte          // the stop sequence that matched
	called   bool            // a tool was called
	refused  bool            // the model refused in words
	own      []byte          // the gateway's own member
}

// Attach keeps the gateway's own member: of the message, or of the event that ends a stream.
func (e *envelope) Attach(dst, own []byte) []byte {
	e.own = own
	return dst
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

// isOther reports whether an event belongs to another choice than the first, the only one that this dialect has.
func (e *envelope) isOther(ev *chat.Event) bool {
	if ev.Choice > 0 {
		e.Lose("choices")
	}
	return ev.Choice > 0
}

// gather puts a piece of the answer into its block, and notes what it means for the reason to stop.
func (e *envelope) gather(ev *chat.Event) {
	e.called = e.called || ev.Kind == chat.ToolStart
	e.refused = e.refused || ev.Kind == chat.Refusal
	e.blocks.add(ev)
}

// count learns what the answer took.
func (e *envelope) count(ev *chat.Event) {
	e.usage.Merge(ev.Usage)
	if e.opts.Same && ev.Text != nil {
		e.ownUsage = wire.AppendMerged(nil, jsonx.Value{Raw: e.ownUsage}, jsonx.Value{Raw: ev.Text})
	}
}

// isContent reports whether an extra is a block or belongs to one. Others are kept with the message, or named as lost.
func (e *envelope) isContent(ev *chat.Event) bool {
	switch {
	case len(ev.Cites) > 0 && !e.opts.Same:
		e.cite(ev)
	case !e.opts.Same:
		e.translateExtra(ev)
	case ev.ID == chat.ServiceTier || ev.ID == serverToolUse && len(ev.Text) == 0: // the usage says it
	case len(ev.Text) == 0:
		e.Lose(ev.ID)
	case ev.ID == container || ev.ID == contextManagement || ev.ID == stopDetails:
		e.members = append(e.members, member{ev.ID, bytes.Clone(ev.Text)})
	default:
		return true
	}
	return false
}

// translateExtra says what another dialect alone says, if this one has a word for it.
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
	if !ev.Said {
		e.Lose(ev.ID)
	}
}

// appendMember appends a member of the message, with a comma before it, if there is such a one.
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
	dst = appendError(dst, f, e.opts.RequestID)
	return append(dst, "\n\n"...)
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	return appendError(dst, f, e.opts.RequestID)
}
