package message

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// streamEncoder writes the events of a message. Clients expect sequential blocks: the first pending block is written as it arrives, the
// others wait until it is complete.
type streamEncoder struct {
	envelope
	began    bool // message_start was written
	opened   bool // the first block's start was written
	index    int  // of the first block, for the client
	finished bool // message_delta was written

	discarded []byte // translation of what passed unchanged, which is not sent; a reused buffer
}

// Append writes an event for the client. The provider's own frames pass unchanged.
func (e *streamEncoder) Append(dst []byte, ev *chat.Event) []byte {
	switch {
	case e.ended || e.isOtherChoice(ev):
		return dst
	case e.opts.Same && (ev.Tail || ev.Raw != nil):
		if e.opts.MayChange && ev.Kind != chat.End {
			e.track(ev)
		}
		if ev.Tail {
			return dst
		}
		if ev.Kind != chat.End {
			return e.appendRaw(dst, ev.Raw, ev.ModelSpan)
		}
		e.ended = true
		return terminate(wire.AppendWithOwn(dst, ev.Raw, e.own))
	}
	return e.translate(dst, ev)
}

// track updates the state with an event that passes unchanged, so that later events can be translated. Names that it degrades are
// discarded.
func (e *streamEncoder) track(ev *chat.Event) {
	degraded := e.DegradedNames
	e.discarded = e.translate(e.discarded[:0], ev)
	e.DegradedNames = degraded
}

// terminate adds the blank line that some servers omit after the last event: without it clients do not process the event.
func terminate(dst []byte) []byte {
	for !bytes.HasSuffix(dst, []byte("\n\n")) && !bytes.HasSuffix(dst, []byte("\n\r\n")) && !bytes.HasSuffix(dst, []byte("\r\r")) {
		dst = append(dst, '\n')
	}
	return dst
}

func (e *streamEncoder) translate(dst []byte, ev *chat.Event) []byte {
	switch ev.Kind {
	case chat.Start:
		return e.begin(dst, ev)
	case chat.UsageInfo:
		e.addUsage(ev)
		if e.reason != "" && e.usage.Final { // before End, so that the terminator is a separate write
			return e.writeMessageDelta(dst)
		}
	case chat.Stop:
		e.stop(ev)
		e.blocks.stopAll()
		dst = e.flush(e.begin(dst, &chat.Event{}))
		if e.usage.Final {
			return e.writeMessageDelta(dst)
		}
	case chat.End:
		dst = e.writeMessageDelta(dst)
		e.ended = true
		dst = append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\""...)
		return append(wire.AppendOwn(dst, e.own), "}\n\n"...)
	case chat.Extra:
		if e.isContent(ev) {
			return e.content(dst, ev)
		}
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.BlockStop:
		return e.content(dst, ev)
	case chat.Error, chat.Other: // not expressible in this format
	}
	return dst
}

// content adds content to its block, and writes what can be written.
func (e *streamEncoder) content(dst []byte, ev *chat.Event) []byte {
	if e.finished { // the message is complete
		return dst
	}
	e.collect(ev)
	if len(e.blocks) == 0 {
		return dst
	}
	return e.flush(e.begin(dst, &chat.Event{}))
}

// begin writes message_start, once. Providers of other formats report their usage at the end, in message_delta; until then clients such as
// Claude Code, which record what message_start has, get the estimate of the input.
func (e *streamEncoder) begin(dst []byte, ev *chat.Event) []byte {
	if e.began {
		return dst
	}
	e.began = true
	e.start(ev)
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	dst = e.appendHead(dst)
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null,`...)
	reported := e.usage
	if req := e.opts.Request; !e.opts.Same && req != nil && e.usage.TotalInput() == 0 {
		e.usage.Input = req.InputTokens
	}
	dst = e.appendUsage(dst)
	e.usage = reported
	return append(dst, "}}\n\n"...)
}

// writeMessageDelta writes message_delta, once: the stop reason and the usage.
func (e *streamEncoder) writeMessageDelta(dst []byte) []byte {
	if e.finished {
		return dst
	}
	e.blocks.stopAll()
	dst = e.flush(e.begin(dst, &chat.Event{}))
	e.finished = true
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	dst = e.appendMember(e.appendMember(e.appendStop(dst), container), stopDetails)
	dst = e.appendUsage(append(dst, "},"...))
	return append(e.appendMember(dst, contextManagement), "}\n\n"...)
}

// flush writes the available part of the first block and, while the first is complete, of the next.
func (e *streamEncoder) flush(dst []byte) []byte {
	for len(e.blocks) > 0 {
		b := &e.blocks[0]
		if !e.opened {
			e.opened = true
			dst = e.event(dst, "content_block_start", `"content_block":`)
			dst = append(b.appendStart(dst), "}\n\n"...)
		}
		dst = e.deltas(dst, b)
		if !b.stopped {
			return dst
		}
		dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
		dst = append(strconv.AppendInt(dst, int64(e.index), 10), "}\n\n"...)
		e.opened = false
		e.index++
		e.blocks.drop()
	}
	return dst
}

// event starts an event of a block, up to the value of its last member.
func (e *streamEncoder) event(dst []byte, name, member string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	dst = append(dst, `","index":`...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	return append(append(dst, ','), member...)
}

// deltas writes what arrived for the open block since the last call.
func (e *streamEncoder) deltas(dst []byte, b *pendingBlock) []byte {
	var member string
	switch b.kind {
	case chat.Text:
		member = `{"type":"text_delta","text":`
	case chat.Thought:
		member = `{"type":"thinking_delta","thinking":`
	case chat.ToolStart, chat.Extra:
		member = `{"type":"input_json_delta","partial_json":`
	default:
		return dst
	}
	dst = e.delta(dst, member, &b.text)
	for _, c := range b.citations {
		dst = e.event(dst, "content_block_delta", `"delta":{"type":"citations_delta","citation":`)
		dst = append(wire.AppendLine(dst, c), "}}\n\n"...)
	}
	b.citations = nil
	return e.delta(dst, `{"type":"signature_delta","signature":`, &b.sign)
}

func (e *streamEncoder) delta(dst []byte, member string, text *[]byte) []byte {
	if len(*text) == 0 {
		return dst
	}
	dst = e.event(dst, "content_block_delta", `"delta":`)
	dst = jsonx.AppendString(append(dst, member...), *text)
	*text = (*text)[:0]
	return append(dst, "}}\n\n"...)
}
