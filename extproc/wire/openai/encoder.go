package openai

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// NewEncoder writes one answer for an OpenAI client. Events of kind Error write nothing: what a client may see of one
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

// envelope is what every chunk and body of one answer repeats, and what the answer has shown so far.
type envelope struct {
	wire.Losses
	opts     wire.Options
	quoted   []byte // opts.Model as a JSON string
	id       string
	model    string
	usage    chat.Usage
	ownUsage []byte   // the provider's own usage, if it speaks this dialect
	stops    bool     // a finish_reason was written
	tops     []member // members that stand beside the choices
	detail   blockRef // of reasoning_details
	said     spots
	own      []byte // the gateway's own member

	thoughtKey string // what the member with the thinking is called; "" is reasoning_content
}

// appendThoughtKey appends the key of thinking, with its colon.
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

// blockRef numbers blocks as they come. The zero value has seen none.
type blockRef struct {
	choice, block, next int
}

// index is the number of a block, the last one's or a new one.
func (r *blockRef) index(choice, block int) (n int, isNew bool) {
	if isNew = r.next == 0 || r.choice != choice || r.block != block; isNew {
		r.choice, r.block = choice, block
		r.next++
	}
	return r.next - 1, isNew
}

// start learns the answer's names. A provider of another dialect has ids of another form, so the answer gets one of
// ours.
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

// note learns what an event says besides content: names, usage, and what this format has no words for.
func (e *envelope) note(ev *chat.Event) {
	e.said.note(ev)
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		e.usage.Merge(ev.Usage)
		if e.opts.Same && ev.Text != nil {
			e.ownUsage = wire.AppendMerged(nil, jsonx.Value{Raw: e.ownUsage}, jsonx.Value{Raw: ev.Text})
		}
		if e.usage.CacheWrite1h > 0 {
			e.Lose("ephemeral_1h_input_tokens")
		}
	case chat.Signature, chat.Redacted:
		if !e.opts.Same && ev.ID == "" {
			e.Lose("signature")
		}
	case chat.Stop:
		switch {
		case e.opts.Same: // in a member of its own
		case ev.Reason == chat.StopSequence:
			e.Lose("stop_sequence")
		case ev.Reason == chat.StopPause:
			e.Lose("pause_turn")
		}
	}
}

// head appends an object's members up to and including "choices": or "usage":.
func (e *envelope) head(dst []byte, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonx.AppendString(dst, e.id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, e.opts.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = jsonx.AppendString(dst, e.model)
	dst = appendMembers(dst, e.tops)
	return append(dst, `,"choices":[`...)
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
	if written := u.CacheWrite + u.CacheWrite1h; written > 0 { // as OpenRouter says it
		dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), written, 10)
	}
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	return append(dst, `}}`...)
}

// finishReason is what OpenAI calls a reason to stop. A turn that called tools stops for them, whatever was said.
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

// Error appends the error as a frame of a stream; in a JSON answer it is the body.
func (e *streamEncoder) Error(dst []byte, f *fault.Fault) []byte {
	dst = append(dst, "data: "...)
	dst = appendError(dst, f, e.opts.RequestID)
	return append(dst, "\n\n"...)
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	return appendError(dst, f, e.opts.RequestID)
}
