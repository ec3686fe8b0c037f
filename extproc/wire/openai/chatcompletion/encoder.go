package chatcompletion

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// NewEncoder returns the encoder of one answer for an OpenAI client. It writes nothing for events of kind Error: the caller writes the
// client's error with Error.
func NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o, quoted: o.QuotedModel()}
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e}
}

// envelope is the common state of both encoders: the members that every chunk repeats, and what was written so far.
type envelope struct {
	wire.DegradedNames
	opts          wire.Options
	quoted        []byte // opts.Model as a JSON string
	id            string
	model         string
	usage         chat.Usage
	ownUsage      []byte       // the provider's own usage, if it speaks this dialect
	stopped       bool         // a finish_reason was written
	topMembers    []member     // members next to the choices
	detailNumbers blockNumbers // numbers of the blocks in reasoning_details
	written       spots
	own           []byte // the gateway's own member

	thoughtKey string // the key of thinking; "" means reasoning_content
}

// appendThoughtKey appends the key of thinking and a colon.
func (e *envelope) appendThoughtKey(dst []byte) []byte {
	if e.thoughtKey != "" {
		return append(append(append(dst, '"'), e.thoughtKey...), `":`...)
	}
	return append(dst, `"reasoning_content":`...)
}

// member is a member of an object: its key and its JSON.
type member struct {
	key  string
	json []byte
}

// blockNumbers numbers blocks in order of arrival. The zero value is ready.
type blockNumbers struct {
	choice, block, next int
}

// index returns the number of a block: that of the last block, or a new one.
func (r *blockNumbers) index(choice, block int) (n int, isNew bool) {
	if isNew = r.next == 0 || r.choice != choice || r.block != block; isNew {
		r.choice, r.block = choice, block
		r.next++
	}
	return r.next - 1, isNew
}

// start sets the answer's id and model. Ids of other dialects have another syntax, so the gateway generates one.
func (e *envelope) start(ev *chat.Event) {
	e.id = ev.ID
	if !e.opts.Same && e.opts.RequestID != "" || e.id == "" {
		e.id = "chatcmpl-" + e.opts.RequestID
	}
	e.model = ev.Model
	if e.opts.Model != "" {
		e.model = e.opts.Model
	}
}

// note records ids, usage, and what this format cannot express.
func (e *envelope) note(ev *chat.Event) {
	e.written.note(ev)
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		wire.MergeUsage(&e.usage, &e.ownUsage, ev, e.opts.Same)
		if e.usage.CacheWrite1h > 0 {
			e.Degrade("ephemeral_1h_input_tokens")
		}
	case chat.Signature, chat.Redacted:
		if !e.opts.Same && ev.ID == "" {
			e.Degrade("signature")
		}
	case chat.Stop:
		switch {
		case e.opts.Same: // written as a separate member
		case ev.Reason == chat.StopSequence:
			e.Degrade("stop_sequence")
		case ev.Reason == chat.StopPause:
			e.Degrade("pause_turn")
		}
	}
}

// head appends an object's members up to the opening bracket of "choices".
func (e *envelope) head(dst []byte, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonx.AppendString(dst, e.id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, e.opts.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = jsonx.AppendString(dst, e.model)
	dst = appendMembers(dst, e.topMembers)
	return append(dst, `,"choices":[`...)
}

// appendRaw appends a provider's own bytes, with the client's name of the model.
func (e *envelope) appendRaw(dst, raw []byte, at chat.Span) []byte {
	return wire.AppendQuoted(dst, raw, at, e.quoted)
}

func (e *envelope) appendUsage(dst []byte) []byte {
	if e.ownUsage != nil {
		return append(dst, e.ownUsage...)
	}
	u := &e.usage
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalInput(), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalInput()+u.Output, 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.Cached, 10)
	if written := u.CacheWrite + u.CacheWrite1h; written > 0 { // OpenRouter's member
		dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), written, 10)
	}
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	return append(dst, `}}`...)
}

// finishReason returns OpenAI's name of a stop reason, which is tool_calls for every turn with tool calls.
func finishReason(r chat.StopReason, calledTools bool) string {
	switch r {
	case chat.StopTool:
		return "tool_calls"
	case chat.StopLength, chat.StopContext:
		return "length"
	case chat.StopRefusal:
		return "content_filter"
	case chat.StopEnd, chat.StopSequence, chat.StopPause:
	}
	if calledTools {
		return "tool_calls"
	}
	return "stop"
}

// Error appends the error as a frame of a stream.
func (e *streamEncoder) Error(dst []byte, f *fault.Fault) []byte {
	dst = append(dst, "data: "...)
	dst = AppendError(dst, f, e.opts.RequestID)
	return append(dst, "\n\n"...)
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	return AppendError(dst, f, e.opts.RequestID)
}
