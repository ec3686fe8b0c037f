package responses

import (
	"bytes"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// NewEncoder returns the encoder of one answer for a Responses client. It writes nothing for events of kind Error: the caller writes the
// client's error with Error.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := &encoder{opts: o, quoted: o.QuotedModel(), custom: customTools(o.Request)}
	if o.Request != nil {
		e.namespaces, _ = namespaces(&o.Request.Doc)
	}
	return e
}

// encoder collects an answer as items and, for a stream, writes events at the same time.
type encoder struct {
	wire.DegradedNames
	opts   wire.Options
	quoted []byte          // opts.Model as a JSON string
	custom map[string]bool // names of the request's tools with a text argument

	namespaces map[string]string // of the request's tools, by their names

	began     bool
	seq       int64
	id        string
	model     string
	items     []*item
	open      []*item // incomplete items
	usage     chat.Usage
	ownUsage  []byte // the provider's own usage, if it speaks this dialect
	tier      []byte // the service tier's JSON
	reason    chat.StopReason
	next      blockAttributes // attributes of the next block
	passed    []byte          // the provider's own body
	own       []byte          // the gateway's own member
	tracked   bool            // the last event passed unchanged, and the items include it
	discarded []byte          // translation of what passed unchanged, which is not sent; a reused buffer
}

// blockAttributes are attributes of a block that only this dialect has, and that precede its content.
type blockAttributes struct {
	id    string // id of its item
	raw   bool   // reasoning_text, not a summary
	phase []byte // of a message: its JSON
}

var customTypes = jsonx.WordsOf(chat.CustomTool)

// customTools returns the names of the custom tools that a request offers; nil for none.
func customTools(r *chat.Request) map[string]bool {
	if r == nil || !r.Doc.MayHoldValue(&customTypes) {
		return nil
	}
	names := map[string]bool{}
	for t := range grouped(&r.Doc) {
		if name, _ := t.Get("name").Str(); t.Get("type").Equal(chat.CustomTool) {
			names[name] = true
		}
	}
	return names
}

// Append writes an event for the client. The provider's own frames pass unchanged.
func (e *encoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.opts.Same && (ev.Tail || ev.Raw != nil) {
		if e.opts.MayChange && ev.Kind != chat.End {
			e.track(ev)
		}
		return e.pass(dst, ev)
	}
	if e.tracked { // the provider's own events completed its items
		e.tracked = false
		e.discard(e.closeAll)
	}
	return e.write(dst, ev)
}

// track updates the state with an event that passes unchanged, so that later events can be translated.
func (e *encoder) track(ev *chat.Event) {
	e.tracked = true
	e.discard(func(dst []byte) []byte { return e.write(dst, ev) })
}

// discard calls write and discards its output and its degraded names.
func (e *encoder) discard(write func(dst []byte) []byte) {
	seq, degraded := e.seq, e.DegradedNames
	e.discarded = write(e.discarded[:0])
	e.seq, e.DegradedNames = seq, degraded
}

// write writes an event for which there are no bytes of the provider.
func (e *encoder) write(dst []byte, ev *chat.Event) []byte {
	if ev.Choice > 0 { // the format has one choice
		e.Degrade("choices")
		return dst
	}
	switch ev.Kind {
	case chat.Start:
		e.start(ev)
		return e.begin(dst)
	case chat.Text, chat.Refusal:
		return e.text(dst, ev)
	case chat.Thought, chat.Signature, chat.Redacted:
		return e.think(dst, ev)
	case chat.ToolStart:
		return e.call(dst, ev)
	case chat.ToolArgs:
		return e.args(dst, ev)
	case chat.BlockStop:
		e.stopBlock(ev.Index)
	case chat.Stop:
		return e.stop(dst, ev)
	case chat.UsageInfo:
		e.count(ev)
	case chat.Extra:
		return e.extra(dst, ev)
	case chat.End:
		return e.end(dst)
	case chat.Error, chat.Other: // not expressible in this format
	}
	return dst
}

// pass writes the provider's own bytes.
func (e *encoder) pass(dst []byte, ev *chat.Event) []byte {
	switch ev.Kind { //nolint:exhaustive // the rest needs no addition to what passes
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		if !e.tracked {
			e.count(ev)
		}
	}
	switch {
	case ev.Raw == nil:
	case e.opts.Stream:
		e.began = true
		e.seq++
		if e.own != nil {
			return e.appendLast(dst, ev)
		}
		return e.appendRaw(dst, ev.Raw, ev.ModelSpan)
	default:
		e.passed = e.appendRaw(nil, ev.Raw, ev.ModelSpan)
	}
	if ev.Kind == chat.End {
		dst = wire.AppendWithOwn(dst, e.passed, e.own)
	}
	return dst
}

// appendRaw appends a provider's own bytes, with the client's name of the model.
func (e *encoder) appendRaw(dst, raw []byte, at chat.Span) []byte {
	return wire.AppendQuoted(dst, raw, at, e.quoted)
}

// Attach keeps the gateway's own member until the response is written.
func (e *encoder) Attach(dst, own []byte) []byte {
	e.own = own
	return dst
}

// appendLast appends the provider's last frame with the gateway's member added to its response, after the model's name. If the response
// does not name a model, the member is added to the frame's object.
func (e *encoder) appendLast(dst []byte, ev *chat.Event) []byte {
	n := len(dst)
	dst = e.appendRaw(dst, ev.Raw, ev.ModelSpan)
	end := len(dst) - (len(ev.Raw) - ev.ModelSpan.End)
	if ev.ModelSpan.End <= ev.ModelSpan.Start || end > len(dst) {
		return wire.AppendWithOwn(dst[:n], bytes.Clone(dst[n:]), e.own)
	}
	return slices.Insert(dst, end, wire.AppendOwn(nil, e.own)...)
}

// start sets the answer's id and model. Ids of other dialects have another syntax, so the gateway generates one.
func (e *encoder) start(ev *chat.Event) {
	e.id, e.model = ev.ID, ev.Model
	if !e.opts.Same || e.id == "" {
		e.id = "resp_" + e.ownID()
	}
	if e.opts.Model != "" {
		e.model = e.opts.Model
	}
}

func (e *encoder) ownID() string { return strings.TrimPrefix(e.opts.RequestID, "req_") }

func (e *encoder) count(ev *chat.Event) {
	wire.MergeUsage(&e.usage, &e.ownUsage, ev, e.opts.Same)
}

// stop completes all items. If the answer is incomplete, so is the last one.
func (e *encoder) stop(dst []byte, ev *chat.Event) []byte {
	e.reason = ev.Reason
	switch ev.Reason {
	case chat.StopSequence:
		e.Degrade("stop_sequence")
	case chat.StopPause:
		e.Degrade("pause_turn")
	case chat.StopEnd, chat.StopLength, chat.StopTool, chat.StopRefusal, chat.StopContext:
	}
	return e.closeAll(e.begin(dst))
}

func (e *encoder) closeAll(dst []byte) []byte {
	for _, it := range e.open {
		if it.index == len(e.items)-1 && e.unfinished() != "" {
			it.status = incomplete
		}
		dst = e.close(dst, it)
	}
	e.open = nil
	return dst
}

// The states of a response and of its items.
const (
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
	inProgress = "in_progress"
)

// unfinished returns the reason why the answer is incomplete; "" if it is complete. A refusal in text is a complete answer.
func (e *encoder) unfinished() string {
	switch e.reason {
	case chat.StopLength, chat.StopContext:
		return "max_output_tokens"
	case chat.StopRefusal:
		if !e.refused() {
			return "content_filter"
		}
	case chat.StopEnd, chat.StopTool, chat.StopSequence, chat.StopPause:
	}
	return ""
}

func (e *encoder) refused() bool {
	for _, it := range e.items {
		for i := range it.parts {
			if it.parts[i].kind == chat.Refusal {
				return true
			}
		}
	}
	return false
}

// end writes what is pending, and the last event or the body.
func (e *encoder) end(dst []byte) []byte {
	dst = e.closeAll(e.begin(dst))
	status := completed
	if e.unfinished() != "" {
		status = incomplete
	}
	if !e.opts.Stream {
		return e.appendResponse(dst, status, nil)
	}
	dst = append(e.openFrame(dst, "response."+status), `,"response":`...)
	return closeFrame(e.appendResponse(dst, status, nil))
}

// Error appends the frames of an error inside a stream: an error event, which OpenAI's SDKs raise, and the failed response, which other
// clients read. For JSON it appends the body of the error.
func (e *encoder) Error(dst []byte, f *fault.Fault) []byte {
	if !e.opts.Stream {
		return append(dst, Dialect{}.Error(f, e.opts.RequestID)...)
	}
	dst = e.openFrame(dst, "error")
	dst = jsonx.AppendString(append(dst, `,"code":`...), f.CodeString())
	dst = jsonx.AppendString(append(dst, `,"message":`...), f.Public)
	dst = appendOptional(append(dst, `,"param":`...), f.Param)
	dst = appendFault(append(dst, `,"error":`...), f)
	if e.opts.RequestID != "" {
		dst = jsonx.AppendString(append(dst, `,"request_id":`...), e.opts.RequestID)
	}
	dst = closeFrame(dst)
	if !e.began {
		return dst
	}
	dst = append(e.openFrame(dst, "response."+failed), `,"response":`...)
	return closeFrame(e.appendResponse(dst, failed, f))
}
