package responses

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// The frames of a stream. For a JSON answer nothing is written.

// openFrame starts a frame, up to its event's own members.
func (e *encoder) openFrame(dst []byte, event string) []byte {
	dst = append(append(dst, "event: "...), event...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), event...)
	dst = strconv.AppendInt(append(dst, `","sequence_number":`...), e.seq, 10)
	e.seq++
	return dst
}

func closeFrame(dst []byte) []byte { return append(dst, "}\n\n"...) }

// begin writes the events of a new response, once.
func (e *encoder) begin(dst []byte) []byte {
	if e.began {
		return dst
	}
	e.began = true
	if e.id == "" {
		e.start(&chat.Event{})
	}
	if !e.opts.Stream {
		return dst
	}
	for _, event := range [...]string{"response.created", "response.in_progress"} {
		dst = append(e.openFrame(dst, event), `,"response":`...)
		dst = closeFrame(e.appendResponse(dst, inProgress, nil))
	}
	return dst
}

// ofItem starts a frame about an item.
func (e *encoder) ofItem(dst []byte, event string, it *item) []byte {
	dst = jsonx.AppendString(append(e.openFrame(dst, event), `,"item_id":`...), it.id)
	return strconv.AppendInt(append(dst, `,"output_index":`...), int64(it.index), 10)
}

// pictureEvent writes an event about an item with an image, which has no members of its own.
func (e *encoder) pictureEvent(dst []byte, event string, it *item) []byte {
	if !e.opts.Stream {
		return dst
	}
	return closeFrame(e.ofItem(dst, event, it))
}

func (e *encoder) itemAdded(dst []byte, it *item) []byte {
	if !e.opts.Stream {
		return dst
	}
	dst = e.openFrame(dst, "response.output_item.added")
	dst = strconv.AppendInt(append(dst, `,"output_index":`...), int64(it.index), 10)
	return closeFrame(it.append(append(dst, `,"item":`...), inProgress))
}

func (e *encoder) itemDone(dst []byte, it *item) []byte {
	if !e.opts.Stream {
		return dst
	}
	dst = e.openFrame(dst, "response.output_item.done")
	dst = strconv.AppendInt(append(dst, `,"output_index":`...), int64(it.index), 10)
	return closeFrame(it.append(append(dst, `,"item":`...), it.status))
}

// names returns the name of a part's events, and the members with its index and its text.
func (p *part) names() (family, place, text string) {
	switch {
	case p.kind == chat.Refusal:
		return "refusal", "content_index", "refusal"
	case p.kind == chat.Text:
		return "output_text", "content_index", "text"
	case p.raw:
		return "reasoning_text", "content_index", "text"
	}
	return "reasoning_summary_text", "summary_index", "text"
}

// ofPart starts a frame about a part.
func (e *encoder) ofPart(dst []byte, event string, it *item, i int) []byte {
	_, place, _ := it.parts[i].names()
	dst = e.ofItem(dst, event, it)
	dst = append(append(append(dst, `,"`...), place...), `":`...)
	return strconv.AppendInt(dst, int64(it.parts[i].place), 10)
}

// partEvent writes an event with a part; verb is added or done.
func (e *encoder) partEvent(dst []byte, verb string, it *item, i int, empty bool) []byte {
	family := "response.content_part."
	if p := &it.parts[i]; p.kind == chat.Thought && !p.raw {
		family = "response.reasoning_summary_part."
	}
	dst = append(e.ofPart(dst, family+verb, it, i), `,"part":`...)
	return closeFrame(it.parts[i].append(dst, empty))
}

func (e *encoder) partAdded(dst []byte, it *item) []byte {
	if !e.opts.Stream {
		return dst
	}
	return e.partEvent(dst, "added", it, len(it.parts)-1, true)
}

func (e *encoder) delta(dst []byte, it *item, i int, text []byte) []byte {
	if !e.opts.Stream {
		return dst
	}
	family, _, _ := it.parts[i].names()
	dst = e.ofPart(dst, "response."+family+".delta", it, i)
	dst = jsonx.AppendString(append(dst, `,"delta":`...), text)
	if it.parts[i].kind == chat.Text {
		dst = append(dst, `,"logprobs":[]`...)
	}
	return closeFrame(dst)
}

// closePart ends the last part of an item, if it is open.
func (e *encoder) closePart(dst []byte, it *item) []byte {
	i := len(it.parts) - 1
	if i < 0 || it.parts[i].closed {
		return dst
	}
	p := &it.parts[i]
	p.closed = true
	if !e.opts.Stream || it.kind == reasoning && len(p.text) == 0 {
		return dst
	}
	family, _, text := p.names()
	dst = e.ofPart(dst, "response."+family+".done", it, i)
	dst = append(append(append(dst, `,"`...), text...), `":`...)
	dst = jsonx.AppendString(dst, p.text)
	if p.kind == chat.Text {
		dst = appendJoined(append(dst, `,"logprobs":`...), p.logprobs)
	}
	return e.partEvent(closeFrame(dst), "done", it, i, false)
}

func (e *encoder) annotationAdded(dst []byte, it *item, json []byte) []byte {
	if !e.opts.Stream {
		return dst
	}
	i := len(it.parts) - 1
	dst = e.ofPart(dst, "response.output_text.annotation.added", it, i)
	dst = strconv.AppendInt(append(dst, `,"annotation_index":`...), int64(len(it.parts[i].notes)-1), 10)
	return closeFrame(wire.AppendLine(append(dst, `,"annotation":`...), json))
}

func (it *item) argsEvent() (event, member string) {
	if it.kind == customCall {
		return "response.custom_tool_call_input", "input"
	}
	return "response.function_call_arguments", "arguments"
}

func (e *encoder) argsDelta(dst []byte, it *item, piece []byte) []byte {
	if !e.opts.Stream || len(piece) == 0 {
		return dst
	}
	event, _ := it.argsEvent()
	dst = e.ofItem(dst, event+".delta", it)
	return closeFrame(jsonx.AppendString(append(dst, `,"delta":`...), piece))
}

func (e *encoder) argsDone(dst []byte, it *item) []byte {
	if !e.opts.Stream {
		return dst
	}
	event, member := it.argsEvent()
	dst = e.ofItem(dst, event+".done", it)
	if it.kind == functionCall {
		dst = jsonx.AppendString(append(dst, `,"name":`...), it.call.Name)
	}
	dst = append(append(append(dst, `,"`...), member...), `":`...)
	return closeFrame(jsonx.AppendString(dst, it.args))
}
