package message

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// bodyEncoder collects an answer and writes it as one message.
type bodyEncoder struct {
	envelope
	raw []byte // the provider's own body, with the model's name for the client
}

// Append collects events; the End event writes the body.
func (e *bodyEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.ended || e.isOtherChoice(ev) {
		return dst
	}
	if e.opts.Same && ev.Raw != nil {
		e.raw = e.appendRaw(e.raw[:0], ev.Raw, ev.ModelSpan)
	}
	switch ev.Kind {
	case chat.Start:
		e.start(ev)
	case chat.Stop:
		e.stop(ev)
	case chat.UsageInfo:
		if e.raw == nil {
			e.addUsage(ev)
		}
	case chat.End:
		e.ended = true
		if e.raw != nil {
			return wire.AppendWithOwn(dst, e.raw, e.own)
		}
		return e.appendBody(dst)
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.BlockStop:
		if e.raw == nil {
			e.collect(ev)
		}
	case chat.Extra:
		if e.raw == nil && e.isContent(ev) {
			e.collect(ev)
		}
	case chat.Error, chat.Other: // not expressible in this format
	}
	return dst
}

func (e *bodyEncoder) appendBody(dst []byte) []byte {
	if e.id == "" {
		e.start(&chat.Event{})
	}
	dst = e.appendHead(dst)
	for i := range e.blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.blocks[i].appendWhole(dst)
	}
	dst = append(dst, `],`...)
	dst = e.appendMember(e.appendStop(dst), stopDetails)
	dst = e.appendUsage(append(dst, ','))
	dst = e.appendMember(e.appendMember(dst, container), contextManagement)
	return append(wire.AppendOwn(dst, e.own), '}')
}
