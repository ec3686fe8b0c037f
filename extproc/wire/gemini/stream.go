package gemini

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// streamEncoder writes chunks. The format has no terminator: clients treat the chunk with the finish reason as the end, so it is held until
// the End event.
type streamEncoder struct {
	envelope
	began bool
	held  []byte // the provider's own last chunk
}

// Append writes an event for the client. The provider's own frames pass unchanged.
func (e *streamEncoder) Append(dst []byte, ev *chat.Event) []byte {
	switch {
	case e.ended:
		return dst
	case ev.Kind == chat.End:
		return e.end(dst)
	case e.opts.Same && (ev.Tail || ev.Raw != nil):
		if e.opts.MayChange && (ev.Kind == chat.Start || ev.Kind == chat.UsageInfo) {
			e.note(ev)
		}
		if ev.Tail {
			return dst
		}
		dst = append(dst, e.held...)
		e.held, e.began = e.held[:0], true
		if bytes.Contains(ev.Raw, []byte(`"finishReason"`)) || bytes.Contains(ev.Raw, []byte(`"blockReason"`)) {
			e.held = e.appendRaw(e.held, ev.Raw, ev.ModelSpan)
			return dst
		}
		return e.appendRaw(dst, ev.Raw, ev.ModelSpan)
	}
	e.note(ev)
	return e.translate(dst, ev)
}

func (e *streamEncoder) translate(dst []byte, ev *chat.Event) []byte {
	c := e.candidate(ev.Choice)
	switch ev.Kind {
	case chat.Text, chat.Refusal:
		return e.text(dst, ev, false)
	case chat.Thought:
		return e.text(dst, ev, true)
	case chat.Signature:
		if e.signs(ev) {
			dst = e.chunk(e.flushSignature(dst, ev.Choice), ev.Choice, appendText(nil, nil, true, encodeSignature(string(ev.Text), false)))
		}
	case chat.Redacted:
		return e.redacted(dst, ev)
	case chat.ToolStart:
		c.openCall(ev)
	case chat.ToolArgs:
		c.args(ev)
	case chat.BlockStop:
		if call, ok := c.closeCall(ev.Index); ok {
			return e.chunk(dst, ev.Choice, call.appendTo(nil))
		}
	case chat.Stop:
		dst = e.flushSignature(dst, ev.Choice)
		for len(c.calls) > 0 {
			call, _ := c.closeCall(c.calls[0].block)
			dst = e.chunk(dst, ev.Choice, call.appendTo(nil))
		}
	case chat.Extra:
		if parts := e.extra(ev); parts != nil {
			return e.chunk(e.flushSignature(dst, ev.Choice), ev.Choice, wire.AppendLine(nil, parts))
		}
	case chat.Start, chat.UsageInfo, chat.Error, chat.End, chat.Other: // nothing to write yet
	}
	return dst
}

func (e *streamEncoder) text(dst []byte, ev *chat.Event, thought bool) []byte {
	if len(ev.Text) == 0 {
		return dst
	}
	return e.chunk(e.flushSignature(dst, ev.Choice), ev.Choice, appendText(nil, ev.Text, thought, ""))
}

// redacted writes a redacted block, or holds what may be the signature of the next call.
func (e *streamEncoder) redacted(dst []byte, ev *chat.Event) []byte {
	if !e.signs(ev) {
		return dst
	}
	dst = e.flushSignature(dst, ev.Choice)
	if ev.ID == chat.GeminiThinking {
		e.candidate(ev.Choice).sign = []byte(encodeSignature(string(ev.Text), true))
		return dst
	}
	return e.chunk(dst, ev.Choice, appendText(nil, nil, true, encodeSignature(string(ev.Text), true)))
}

// flushSignature writes a signature that was not followed by a call, as the signature of the text before it.
func (e *streamEncoder) flushSignature(dst []byte, choice int) []byte {
	c := e.candidate(choice)
	if c.sign == nil {
		return dst
	}
	sign := string(c.sign)
	c.sign = nil
	return e.chunk(dst, choice, appendText(nil, nil, false, sign))
}

// chunk writes a chunk with one part of a candidate.
func (e *streamEncoder) chunk(dst []byte, choice int, part []byte) []byte {
	e.began = true
	if e.id == "" {
		e.start(&chat.Event{})
	}
	dst = append(dst, `data: {"candidates":[{"content":{"parts":[`...)
	dst = append(appendOneLine(dst, part), `],"role":"model"},"index":`...)
	dst = append(strconv.AppendInt(dst, int64(choice), 10), `}]`...)
	tops := e.topMembers
	e.topMembers = nil
	dst = append(e.appendTail(dst, false), "\n\n"...)
	e.topMembers = tops
	return dst
}

// appendOneLine appends JSON in which the characters that some of Google's clients treat as line ends are escaped: they occur in strings
// only.
func appendOneLine(dst, json []byte) []byte {
	for _, l := range lineEnds {
		if bytes.Contains(json, l.char) {
			json = bytes.ReplaceAll(json, l.char, l.escape)
		}
	}
	return append(dst, json...)
}

var lineEnds = [...]struct{ char, escape []byte }{
	{[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)}, {[]byte("\u0085"), []byte(`\u0085`)},
}

// end writes the last chunk: finish reasons and usage.
func (e *streamEncoder) end(dst []byte) []byte {
	e.ended = true
	if len(e.held) > 0 {
		return wire.AppendWithOwn(dst, e.held, e.own)
	}
	if e.opts.Same && e.began && len(e.candidates) == 0 { // everything passed unchanged
		if e.own != nil {
			dst = wire.AppendWithOwn(dst, []byte("data: {}\n\n"), e.own)
		}
		return dst
	}
	if e.id == "" {
		e.start(&chat.Event{})
	}
	blocked := e.isBlocked()
	dst = append(dst, `data: {`...)
	if !blocked {
		dst = append(dst, `"candidates":[`...)
		e.candidate(0)
		for i := range e.candidates {
			if i > 0 {
				dst = append(dst, ',')
			}
			e.candidates[i].stopped = true
			dst = append(dst, `{"content":{"parts":[{"text":""}],"role":"model"}`...)
			dst = e.candidates[i].finish(dst)
			dst = append(strconv.AppendInt(append(dst, `,"index":`...), int64(i), 10), '}')
		}
		dst = append(dst, ']')
	}
	at := len(dst)
	dst = append(e.appendTail(dst, true), "\n\n"...)
	if blocked { // the first member has no comma before it
		dst = append(dst[:at], dst[at+1:]...)
	}
	return dst
}

// isBlocked reports whether the provider refused the prompt, by this dialect's own member.
func (e *envelope) isBlocked() bool {
	for _, m := range e.topMembers {
		if m.key == promptFeedback && bytes.Contains(m.json, []byte(`"blockReason"`)) {
			return len(e.candidates) <= 1
		}
	}
	return false
}
