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

// NewEncoder writes one answer for a Responses client. Events of kind Error write nothing: what a client may see of one
// is said with Error.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := &encoder{opts: o, custom: customTools(o.Request)}
	if o.Model != "" {
		e.quoted = jsonx.AppendString(nil, o.Model)
	}
	return e
}

// encoder gathers an answer into items and, for a stream, tells on the way what it gathers.
type encoder struct {
	wire.Losses
	opts   wire.Options
	quoted []byte          // opts.Model as a JSON string
	custom map[string]bool // the tools of the request whose argument is a text

	began    bool
	seq      int64
	id       string
	model    string
	items    []*item
	going    []*item // of those, what is not done
	usage    chat.Usage
	ownUsage []byte // the provider's own usage, if it speaks this dialect
	tier     []byte // the service tier's JSON
	reason   chat.StopReason
	next     named  // what the provider says of the block that begins
	passed   []byte // the provider's own body
	own      []byte // the gateway's own member
}

// named is what only this dialect says of a block before its content.
type named struct {
	id    string // its item's
	raw   bool   // reasoning is the model's own words, no summary
	phase []byte // of a message: its JSON
}

// customTools are the tools that a request offers as functions in this format's own way; nil for none.
func customTools(r *chat.Request) map[string]bool {
	if r == nil || !r.Doc.MayHold(`"`+chat.CustomTool+`"`) {
		return nil
	}
	names := map[string]bool{}
	for _, t := range r.Doc.Get("tools").Each {
		if name, _ := t.Get("name").Str(); t.Get("type").Equal(chat.CustomTool) {
			names[name] = true
		}
	}
	return names
}

// Append writes what one event means to the client. A frame of the provider's own passes as it came.
func (e *encoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.opts.Same && (ev.Tail || ev.Raw != nil) {
		return e.pass(dst, ev)
	}
	if ev.Choice > 0 { // this format has one answer
		e.Lose("choices")
		return dst
	}
	switch ev.Kind {
	case chat.Start:
		e.start(ev)
		return e.begin(dst)
	case chat.Text, chat.Refusal:
		return e.say(dst, ev)
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
	case chat.Error, chat.Other: // this format has no words for them
	}
	return dst
}

// pass writes the provider's own bytes.
func (e *encoder) pass(dst []byte, ev *chat.Event) []byte {
	switch ev.Kind { //nolint:exhaustive // the rest leaves nothing to add to what passes
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		e.count(ev)
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
		dst = wire.AppendBeside(dst, e.passed, e.own)
	}
	return dst
}

// appendRaw appends a provider's own bytes, with the model's name as the client shall see it.
func (e *encoder) appendRaw(dst, raw []byte, at chat.Span) []byte {
	if e.quoted == nil || at.End <= at.Start || at.End > len(raw) || bytes.Equal(raw[at.Start:at.End], e.quoted) {
		return append(dst, raw...)
	}
	dst = append(dst, raw[:at.Start]...)
	dst = append(dst, e.quoted...)
	return append(dst, raw[at.End:]...)
}

// Attach keeps the gateway's own member of the response.
func (e *encoder) Attach(dst, own []byte) []byte {
	e.own = own
	return dst
}

// appendLast appends the provider's own last frame with the gateway's member in its response, behind the model's name. A response
// without one has it beside it.
func (e *encoder) appendLast(dst []byte, ev *chat.Event) []byte {
	n := len(dst)
	dst = e.appendRaw(dst, ev.Raw, ev.ModelSpan)
	behind := len(dst) - (len(ev.Raw) - ev.ModelSpan.End)
	if ev.ModelSpan.End <= ev.ModelSpan.Start || behind > len(dst) {
		return wire.AppendBeside(dst[:n], bytes.Clone(dst[n:]), e.own)
	}
	return slices.Insert(dst, behind, wire.AppendBehind(nil, e.own)...)
}

// start learns the answer's names. A provider of another dialect has ids of another form, so the answer gets one of
// ours.
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
	e.usage.Merge(ev.Usage)
	if e.opts.Same && ev.Text != nil {
		e.ownUsage = wire.AppendMerged(nil, jsonx.Value{Raw: e.ownUsage}, jsonx.Value{Raw: ev.Text})
	}
}

// stop completes every item. The last one is as incomplete as the answer.
func (e *encoder) stop(dst []byte, ev *chat.Event) []byte {
	e.reason = ev.Reason
	switch ev.Reason {
	case chat.StopSequence:
		e.Lose("stop_sequence")
	case chat.StopPause:
		e.Lose("pause_turn")
	case chat.StopEnd, chat.StopLength, chat.StopTool, chat.StopRefusal, chat.StopContext:
	}
	return e.closeAll(e.begin(dst))
}

func (e *encoder) closeAll(dst []byte) []byte {
	for _, it := range e.going {
		if it.index == len(e.items)-1 && e.unfinished() != "" {
			it.status = incomplete
		}
		dst = e.close(dst, it)
	}
	e.going = nil
	return dst
}

// The states of a response and of its items.
const (
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
	inProgress = "in_progress"
)

// unfinished is why the answer is incomplete, in this format's words; "" if it is not. One that was refused in words is
// complete with them.
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

// end writes what the client still waits for, and the terminator or the body.
func (e *encoder) end(dst []byte) []byte {
	dst = e.closeAll(e.begin(dst))
	status := completed
	if e.unfinished() != "" {
		status = incomplete
	}
	if !e.opts.Stream {
		return e.appendResponse(dst, status, nil)
	}
	dst = append(e.open(dst, "response."+status), `,"response":`...)
	return shut(e.appendResponse(dst, status, nil))
}

// Error appends the frames by which a client in the middle of a stream learns that it failed: as an error, which OpenAI's
// SDKs raise, and as the failed response, which others read. Of a JSON answer it is the body.
func (e *encoder) Error(dst []byte, f *fault.Fault) []byte {
	if !e.opts.Stream {
		return append(dst, Dialect{}.Error(f, e.opts.RequestID)...)
	}
	dst = e.open(dst, "error")
	dst = jsonx.AppendString(append(dst, `,"code":`...), f.CodeString())
	dst = jsonx.AppendString(append(dst, `,"message":`...), f.Public)
	dst = appendOptional(append(dst, `,"param":`...), f.Param)
	dst = appendFault(append(dst, `,"error":`...), f)
	if e.opts.RequestID != "" {
		dst = jsonx.AppendString(append(dst, `,"request_id":`...), e.opts.RequestID)
	}
	dst = shut(dst)
	if !e.began {
		return dst
	}
	dst = append(e.open(dst, "response."+failed), `,"response":`...)
	return shut(e.appendResponse(dst, failed, f))
}
