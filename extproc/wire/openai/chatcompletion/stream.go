package chatcompletion

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// streamEncoder writes chat.completion.chunk events.
type streamEncoder struct {
	envelope
	began      bool // a chunk was written
	passed     bool // a frame of the provider's passed unchanged
	tools      []openTool
	usageShown bool
	atStop     []member // to be written with the finish_reason
	pending    pendingDetails
}

// openTool is a call that may get more arguments. The client sees its index, which is counted per choice.
type openTool struct {
	choice, block, index int
	argsWritten          bool // arguments were written, or none are needed
	custom               bool // its arguments are free text
}

// Append writes an event for the client. The provider's own frames pass unchanged.
func (e *streamEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.opts.Same && (ev.Tail || ev.Raw != nil) {
		e.observe(ev)
		if ev.Tail {
			return e.fill(dst, ev)
		}
		if ev.UsageChunk && !e.opts.ShowUsage {
			return dst
		}
		e.began, e.passed = true, true
		return e.appendRaw(e.fill(dst, ev), ev.Raw, ev.ModelSpan)
	}
	return e.translate(dst, ev)
}

// observe updates the state with an event that passes unchanged, so that additions of the gateway fit.
func (e *streamEncoder) observe(ev *chat.Event) {
	e.usageShown = e.usageShown || ev.UsageChunk
	e.note(ev)
	switch ev.Kind { //nolint:exhaustive // the rest needs no addition
	case chat.ToolStart:
		t := e.openTool(ev)
		t.custom = ev.ID == chat.CustomTool
		t.argsWritten = t.custom
	case chat.ToolArgs:
		e.openTool(ev).argsWritten = true // the provider's frames contain them
	case chat.Stop:
		e.stopped = true
	}
}

// fill writes the arguments of a call that ended without any in the provider's frames.
func (e *streamEncoder) fill(dst []byte, ev *chat.Event) []byte {
	if ev.Kind != chat.BlockStop {
		return dst
	}
	return e.closeTools(dst, func(t *openTool) bool { return t.choice == ev.Choice && t.block == ev.Index })
}

func (e *streamEncoder) translate(dst []byte, ev *chat.Event) []byte {
	if e.pending.on {
		dst = e.release(dst, ev)
	}
	e.note(ev)
	switch ev.Kind {
	case chat.Start:
		return e.begin(dst)
	case chat.Text:
		return e.piece(dst, ev, `"content":`)
	case chat.Thought, chat.Signature, chat.Redacted:
		return e.reasoning(dst, ev)
	case chat.Refusal:
		return e.piece(dst, ev, `"refusal":`)
	case chat.ToolStart:
		return e.toolStart(dst, ev)
	case chat.ToolArgs:
		return e.toolArgs(dst, ev)
	case chat.BlockStop:
		return e.closeTools(dst, func(t *openTool) bool { return t.choice == ev.Choice && t.block == ev.Index })
	case chat.Stop:
		return e.stop(dst, ev.Choice, ev.Reason)
	case chat.UsageInfo:
		if e.stopped && e.usage.Final { // before End, so that the terminator is a separate write
			return e.writeUsage(dst)
		}
		return dst
	case chat.End:
		return e.end(dst)
	case chat.Extra:
		return e.extra(dst, ev)
	case chat.Error, chat.Other: // not expressible in this format
	}
	return dst
}

// begin writes the first chunk, which has the role.
func (e *streamEncoder) begin(dst []byte) []byte {
	if e.began {
		return dst
	}
	e.began = true
	if e.id == "" {
		e.start(&chat.Event{})
	}
	dst = e.delta(dst, 0)
	return e.close(append(dst, `"role":"assistant","content":""`...))
}

// delta opens a chunk up to the members of its delta.
func (e *streamEncoder) delta(dst []byte, choice int) []byte {
	dst = append(dst, "data: "...)
	dst = e.head(dst, "chat.completion.chunk")
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(choice), 10)
	return append(dst, `,"delta":{`...)
}

func (e *streamEncoder) close(dst []byte) []byte {
	return append(dst, `},"finish_reason":null}]}`+"\n\n"...)
}

func (e *streamEncoder) piece(dst []byte, ev *chat.Event, key string) []byte {
	dst = e.begin(dst)
	if len(ev.Text) == 0 {
		return dst
	}
	dst = append(e.delta(dst, ev.Choice), key...)
	return e.close(jsonx.AppendString(dst, ev.Text))
}

// openTool returns the call of a block; it opens one if there is none.
func (e *streamEncoder) openTool(ev *chat.Event) *openTool {
	index := 0
	for i := range e.tools {
		t := &e.tools[i]
		if t.choice != ev.Choice {
			continue
		}
		if t.block == ev.Index {
			return t
		}
		index++
	}
	e.tools = append(e.tools, openTool{choice: ev.Choice, block: ev.Index, index: index})
	return &e.tools[len(e.tools)-1]
}

func (e *streamEncoder) toolStart(dst []byte, ev *chat.Event) []byte {
	dst = e.begin(dst)
	t := e.openTool(ev)
	t.custom = ev.ID == chat.CustomTool
	t.argsWritten = t.argsWritten || t.custom // a text may be empty
	dst = e.toolDelta(dst, t)
	dst = append(dst, `,"id":`...)
	dst = jsonx.AppendString(dst, ev.Tool.ID)
	if t.custom {
		dst = append(dst, `,"type":"custom","custom":{"name":`...)
		dst = jsonx.AppendString(dst, ev.Tool.Name)
		return e.close(append(dst, `,"input":""}}]`...))
	}
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = jsonx.AppendString(dst, ev.Tool.Name)
	return e.close(append(dst, `,"arguments":""}}]`...))
}

// toolArgs continues a call. It does not repeat id and name: clients would append them.
func (e *streamEncoder) toolArgs(dst []byte, ev *chat.Event) []byte {
	if len(ev.Text) == 0 {
		return dst
	}
	t := e.openTool(ev)
	t.argsWritten = true
	dst = e.toolDelta(e.begin(dst), t)
	if t.custom {
		dst = append(dst, `,"custom":{"input":`...)
	} else {
		dst = append(dst, `,"function":{"arguments":`...)
	}
	dst = jsonx.AppendString(dst, ev.Text)
	return e.close(append(dst, `}}]`...))
}

func (e *streamEncoder) toolDelta(dst []byte, t *openTool) []byte {
	dst = append(e.delta(dst, t.choice), `"tool_calls":[{"index":`...)
	return strconv.AppendInt(dst, int64(t.index), 10)
}

// closeTools writes an empty object for calls that ended without arguments: clients parse it.
func (e *streamEncoder) closeTools(dst []byte, which func(*openTool) bool) []byte {
	for i := range e.tools {
		t := &e.tools[i]
		if t.argsWritten || !which(t) {
			continue
		}
		t.argsWritten = true
		dst = e.toolDelta(dst, t)
		dst = e.close(append(dst, `,"function":{"arguments":"{}"}}]`...))
	}
	return dst
}

func (e *streamEncoder) stop(dst []byte, choice int, reason chat.StopReason) []byte {
	dst = e.begin(dst)
	called := false
	dst = e.closeTools(dst, func(t *openTool) bool { return t.choice == choice })
	for i := range e.tools {
		called = called || e.tools[i].choice == choice
	}
	e.stopped = true
	dst = append(e.delta(dst, choice), `},"finish_reason":"`...)
	dst = append(append(dst, finishReason(reason, called)...), '"')
	dst = appendMembers(dst, e.atStop)
	e.atStop = e.atStop[:0]
	return append(dst, `}]}`+"\n\n"...)
}

// Attach appends a chunk without choices, like the usage chunk, after all others: clients that read choices ignore it.
func (e *streamEncoder) Attach(dst, own []byte) []byte {
	if !e.passed {
		dst = e.writePending(e.begin(dst))
	}
	dst = append(dst, "data: "...)
	dst = append(e.head(dst, "chat.completion.chunk"), ']')
	return append(wire.AppendOwn(dst, own), "}\n\n"...)
}

func (e *streamEncoder) writeUsage(dst []byte) []byte {
	if e.usageShown || !e.opts.ShowUsage {
		return dst
	}
	e.usageShown = true
	dst = append(dst, "data: "...)
	dst = append(e.head(dst, "chat.completion.chunk"), `],"usage":`...)
	dst = e.appendUsage(dst)
	return append(dst, "}\n\n"...)
}

// end writes what is pending, and the terminator.
func (e *streamEncoder) end(dst []byte) []byte {
	return append(e.writePending(dst), "data: [DONE]\n\n"...)
}

// writePending writes the finish_reason and the usage, unless they were written.
func (e *streamEncoder) writePending(dst []byte) []byte {
	if !e.stopped {
		dst = e.stop(dst, 0, chat.StopEnd)
	}
	if e.usage != (chat.Usage{}) {
		dst = e.writeUsage(dst)
	}
	return dst
}
