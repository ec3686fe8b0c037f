package message

import (
	"bytes"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// streamEvent holds the relevant members of an event.
type streamEvent struct {
	kind, index, message, block, delta, usage, managed jsonx.Value
}

func (e *streamEvent) read(v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case "type":
			e.kind = m
		case "index":
			e.index = m
		case "message":
			e.message = m
		case "content_block":
			e.block = m
		case "delta":
			e.delta = m
		case "usage":
			e.usage = wire.LargerReport(e.usage, m)
		case contextManagement:
			e.managed = m
		}
	}
}

// message holds the relevant members of a message, complete or just started.
type message struct {
	kind, id, model, content, reason, sequence, usage jsonx.Value
	container, managed, details                       jsonx.Value
}

func readMessage(v jsonx.Value) (m message) {
	for key, v := range v.Members {
		switch string(key) {
		case "type":
			m.kind = v
		case "id":
			m.id = v
		case "model":
			m.model = v
		case "content":
			m.content = v
		case "stop_reason":
			m.reason = v
		case "stop_sequence":
			m.sequence = v
		case "usage":
			m.usage = wire.LargerReport(m.usage, v)
		case container:
			m.container = v
		case contextManagement:
			m.managed = v
		case stopDetails:
			m.details = v
		}
	}
	return m
}

// frame reads one event of a stream. Its type is taken from the data, because some servers do not name events.
func (a *answer) frame(f *sse.Frame) {
	n := len(a.events)
	var model chat.Span
	v, err := a.parser.Parse(f.Data)
	if err != nil { // a comment, or not JSON
		if f.TooLong {
			a.add(chat.Event{Kind: chat.Extra, ID: oversized})
			return
		}
		if len(f.Data) > 0 {
			a.add(chat.Event{Kind: chat.Extra, ID: unreadable})
		}
		a.attachBytes(n, f.Raw, model)
		return
	}
	var e streamEvent
	e.read(v)
	kind, _ := e.kind.Text(&a.arena)
	switch string(kind) {
	case "content_block_delta":
		a.delta(e.index, e.delta)
	case "content_block_start":
		i, _ := e.index.Int()
		a.blockStart(int(i), e.block)
	case "content_block_stop":
		a.blockStop()
	case "message_start":
		m := readMessage(e.message)
		if a.isAnother(&m) {
			a.failTruncated()
			return
		}
		model = a.start(&m)
		a.report(m.usage, false)
	case "message_delta":
		a.member(container, e.delta.Get(container))
		a.member(contextManagement, e.managed)
		a.member(stopDetails, e.delta.Get(stopDetails))
		a.stop(e.delta.Get("stop_reason"), e.delta.Get("stop_sequence"))
		a.report(e.usage, true)
	case "message_stop":
		a.add(chat.Event{Kind: chat.End})
		a.done = true
	case "error":
		a.fail(errbody.InStream(v))
	}
	if f.DataAt < 0 { // data of several lines: offsets in them are not offsets in the frame
		model = chat.Span{}
	} else if model.End > 0 {
		model.Start += f.DataAt
		model.End += f.DataAt
	}
	a.attachBytes(n, f.Raw, model)
}

// isAnother reports whether a message begins inside one that has not ended, as streams do whose provider began anew. The blocks of both cannot
// be told apart; a client of this dialect gets the bytes and decides itself.
func (a *answer) isAnother(m *message) bool {
	id, _ := m.id.Str()
	before := a.id
	a.id = id
	return !a.passes && before != "" && before != id
}

// start emits the Start event, and returns the position of the model's name in the data.
func (a *answer) start(m *message) chat.Span {
	id, _ := m.id.Str()
	name, _ := m.model.Str()
	a.add(chat.Event{Kind: chat.Start, ID: id, Model: name})
	a.member(container, m.container)
	a.member(contextManagement, m.managed)
	a.member(stopDetails, m.details)
	return wire.ModelSpan(m.model, 0)
}

func (a *answer) blockStart(index int, b jsonx.Value) {
	a.open = openBlock{index: index, kind: contentBlock, textBefore: a.points}
	kind, _ := b.Get("type").Text(&a.arena)
	switch string(kind) {
	case "text":
		a.piece(chat.Text, b.Get("text"))
		for _, c := range b.Get(citations).Each {
			a.citation(c)
		}
	case "thinking":
		a.piece(chat.Thought, b.Get("thinking"))
		a.piece(chat.Signature, b.Get("signature"))
	case "redacted_thinking":
		a.piece(chat.Redacted, b.Get("data"))
	case "tool_use":
		a.open.kind = toolBlock
		a.toolStart(b)
		if input := b.Get("input"); hasMembers(input) {
			a.open.input = bytes.Clone(input.Raw)
		}
	default:
		a.open.kind, a.open.raw = otherBlock, bytes.Clone(b.Raw)
		if tool := ownTool(b); tool.Name != "" {
			a.add(chat.Event{Kind: chat.Other, Index: index, Tool: tool})
		}
	}
}

func (a *answer) toolStart(b jsonx.Value) {
	id, _ := b.Get("id").Str()
	name, _ := b.Get("name").Str()
	if own, ok := a.ownNames[name]; ok {
		name = own
	}
	a.add(chat.Event{Kind: chat.ToolStart, Index: a.open.index, Tool: chat.ToolCall{ID: id, Name: name}})
	if by := b.Get("caller").Get("type"); by.Exists() && !by.Equal("direct") {
		a.add(chat.Event{Kind: chat.Extra, ID: caller, Index: a.open.index})
	}
}

func hasMembers(v jsonx.Value) bool {
	for range v.Members {
		return true
	}
	return false
}

// piece emits an event with text, unless it is empty.
func (a *answer) piece(kind chat.EventKind, v jsonx.Value) {
	t := a.text(v)
	if len(t) == 0 {
		return
	}
	ev := chat.Add(&a.events)
	ev.Kind, ev.Index, ev.Text = kind, a.open.index, t
	switch kind { //nolint:exhaustive // the rest needs nothing more
	case chat.Text:
		if a.translates {
			a.points += utf8.RuneCount(t)
		}
	case chat.Thought:
		a.thought += len(t)
		ev.ID = chat.ClaudeThinking
	case chat.Signature, chat.Redacted:
		ev.ID = chat.ClaudeThinking
	}
}

// delta continues the open block. Blocks are sequential, so a new index means that a start event is missing.
func (a *answer) delta(index, d jsonx.Value) {
	if i, ok := index.Int(); ok && int(i) != a.open.index {
		a.open = openBlock{index: int(i), kind: contentBlock, textBefore: a.points}
	}
	var kind, content jsonx.Value
	for key, m := range d.Members {
		switch string(key) {
		case "type":
			kind = m
		case "text", "thinking", "signature", "partial_json", "citation":
			content = m
		}
	}
	name, _ := kind.Text(&a.arena)
	switch string(name) {
	case "text_delta":
		a.piece(chat.Text, content)
	case "thinking_delta":
		a.piece(chat.Thought, content)
	case "signature_delta":
		a.piece(chat.Signature, content)
	case "citations_delta":
		a.citation(content)
	case "input_json_delta":
		a.arguments(content)
	default:
		a.extend(d)
	}
}

// arguments continues the input of a tool call: it is emitted immediately for the client's own tools, and kept until it is complete for
// tools of the provider.
func (a *answer) arguments(v jsonx.Value) {
	if a.open.kind != toolBlock {
		a.open.input = append(a.open.input, a.text(v)...)
		return
	}
	n := len(a.events)
	a.piece(chat.ToolArgs, v)
	if len(a.events) > n {
		a.open.input = nil
	}
}

func (a *answer) blockStop() {
	b := a.open
	a.open = openBlock{index: b.index}
	switch {
	case b.kind != otherBlock:
		a.emitCitations(&b)
		if len(b.input) > 0 {
			a.add(chat.Event{Kind: chat.ToolArgs, Index: b.index, Text: b.input})
		}
		a.add(chat.Event{Kind: chat.BlockStop, Index: b.index})
	case b.raw != nil:
		a.emitForeign(&b)
	}
}

func (a *answer) stop(reason, sequence jsonx.Value) {
	if name, ok := reason.Str(); ok {
		a.add(chat.Event{Kind: chat.Stop, Reason: stopReason(name), Text: a.text(sequence)})
	}
}

func stopReason(s string) chat.StopReason {
	switch s {
	case "max_tokens":
		return chat.StopLength
	case "stop_sequence":
		return chat.StopSequence
	case "tool_use":
		return chat.StopTool
	case "refusal":
		return chat.StopRefusal
	case "pause_turn":
		return chat.StopPause
	case "model_context_window_exceeded":
		return chat.StopContext
	}
	return chat.StopEnd
}

// body reads a JSON answer.
func (a *answer) body(body []byte) {
	n := len(a.events)
	v, err := jsonx.Parse(body)
	m := readMessage(v)
	var model chat.Span
	switch {
	case err != nil || v.Kind() != jsonx.Object:
		a.failTruncated()
		return
	case m.kind.Equal("error"), m.content.IsNull() && v.Get("error").Kind() == jsonx.Object:
		a.fail(errbody.InStream(v))
		return
	case !a.count && m.content.Kind() != jsonx.Array:
		a.fail(&chat.ProviderError{Status: badGateway, Type: "invalid_response", Message: "the provider's answer has no content", Unusable: true})
		return
	case !a.count:
		model = a.start(&m)
		a.content(m.content)
		a.stop(m.reason, m.sequence)
		a.report(m.usage, true)
	}
	a.add(chat.Event{Kind: chat.End})
	a.done = true
	a.attachBytes(n, body, model)
}

func (a *answer) content(blocks jsonx.Value) {
	for i, b := range blocks.Each {
		a.blockStart(i, b)
		a.blockStop()
	}
}
