package gemini

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// bodyEncoder collects an answer and writes it as one object, or as an array of one.
type bodyEncoder struct {
	envelope
	array bool
	open  int    // incomplete calls
	raw   []byte // the provider's own body, with the model's name for the client
	parts [][]answerPart
}

// answerPart is one part of the answer.
type answerPart struct {
	kind chat.EventKind // Text, Thought, ToolStart or Extra
	text []byte
	sign string
	call openCallPart
	open bool
}

// Append collects events; the End event writes the body.
func (e *bodyEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.ended {
		return dst
	}
	if e.opts.Same && ev.Raw != nil {
		e.raw = e.appendRaw(e.raw[:0], ev.Raw, ev.ModelSpan)
	}
	if e.raw == nil {
		e.note(ev)
		e.collect(ev)
	}
	if ev.Kind != chat.End {
		return dst
	}
	e.ended = true
	if e.array {
		dst = append(dst, '[')
	}
	if e.raw != nil {
		dst = wire.AppendWithOwn(dst, e.raw, e.own)
	} else {
		dst = e.appendBody(dst)
	}
	if e.array {
		dst = append(dst, ']')
	}
	return dst
}

func (e *bodyEncoder) collect(ev *chat.Event) {
	n := max(0, min(ev.Choice, maxChoices-1))
	switch ev.Kind {
	case chat.Text, chat.Refusal:
		e.text(n, chat.Text, ev.Text)
	case chat.Thought:
		e.text(n, chat.Thought, ev.Text)
	case chat.Signature:
		if e.signs(ev) {
			p := e.last(n, chat.Thought)
			p.sign, p.open = encodeSignature(string(ev.Text), false), false
		}
	case chat.Redacted:
		if e.signs(ev) {
			e.redacted(n, ev)
		}
	case chat.ToolStart:
		e.toolStart(n, ev)
	case chat.ToolArgs:
		if p := e.call(n, ev.Index); p != nil {
			p.call.args = append(p.call.args, ev.Text...)
		}
	case chat.BlockStop:
		e.closeBlock(n, ev.Index)
	case chat.Extra:
		if parts := e.extra(ev); parts != nil {
			e.add(n, answerPart{kind: chat.Extra, text: bytes.Clone(parts)})
		}
	case chat.Start, chat.Stop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
}

func (e *bodyEncoder) text(n int, kind chat.EventKind, text []byte) {
	if len(text) > 0 {
		p := e.last(n, kind)
		p.text = append(p.text, text...)
	}
}

// last returns the last part if it is open and of this kind, else a new one.
func (e *bodyEncoder) last(n int, kind chat.EventKind) *answerPart {
	e.grow(n)
	if k := len(e.parts[n]); k > 0 {
		if p := &e.parts[n][k-1]; p.kind == kind && p.open {
			return p
		}
	}
	return e.add(n, answerPart{kind: kind, open: true})
}

func (e *bodyEncoder) grow(n int) {
	for len(e.parts) <= n {
		e.parts = append(e.parts, nil)
	}
}

func (e *bodyEncoder) add(n int, p answerPart) *answerPart {
	e.grow(n)
	if k := len(e.parts[n]); k > 0 && e.parts[n][k-1].kind != chat.ToolStart {
		e.parts[n][k-1].open = false
	}
	e.parts[n] = append(e.parts[n], p)
	return &e.parts[n][len(e.parts[n])-1]
}

// redacted adds a redacted block. One of this format is the signature of the next part if that is a call, else of the text before it.
func (e *bodyEncoder) redacted(n int, ev *chat.Event) {
	sign := encodeSignature(string(ev.Text), true)
	e.add(n, answerPart{kind: chat.Redacted, sign: sign, open: ev.ID == chat.GeminiThinking})
}

func (e *bodyEncoder) toolStart(n int, ev *chat.Event) {
	if e.call(n, ev.Index) != nil { // a duplicate start
		return
	}
	e.grow(n)
	call := openCallPart{block: ev.Index, id: ev.Tool.ID, name: ev.Tool.Name}
	if k := len(e.parts[n]); k > 0 && e.parts[n][k-1].kind == chat.Redacted && e.parts[n][k-1].open {
		call.sign = e.parts[n][k-1].sign
		e.parts[n] = e.parts[n][:k-1]
	}
	e.add(n, answerPart{kind: chat.ToolStart, call: call, open: true})
	e.open++
}

// call returns the open call of a block; nil if there is none.
func (e *bodyEncoder) call(n, block int) *answerPart {
	e.grow(n)
	for i := range e.parts[n] {
		if e.open == 0 {
			break
		}
		if p := &e.parts[n][i]; p.kind == chat.ToolStart && p.open && p.call.block == block {
			return p
		}
	}
	return nil
}

func (e *bodyEncoder) closeBlock(n, block int) {
	if p := e.call(n, block); p != nil {
		p.open = false
		e.open--
		return
	}
	if k := len(e.parts[n]); k > 0 && (e.parts[n][k-1].kind == chat.Text || e.parts[n][k-1].kind == chat.Thought) {
		e.parts[n][k-1].open = false
	}
}

func (e *bodyEncoder) appendBody(dst []byte) []byte {
	if e.id == "" {
		e.start(&chat.Event{})
	}
	if e.isBlocked() && len(e.parts) == 0 {
		at := len(dst) + 1
		dst = e.appendTail(append(dst, '{'), true)
		return append(dst[:at], dst[at+1:]...) // the first member has no comma before it
	}
	e.candidate(max(0, len(e.parts)-1))
	e.grow(len(e.candidates) - 1)
	dst = append(dst, `{"candidates":[`...)
	for i := range e.candidates {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"content":{"parts":[`...)
		dst = appendParts(dst, e.parts[i])
		dst = append(dst, `],"role":"model"}`...)
		e.candidates[i].stopped = true
		dst = e.candidates[i].finish(dst)
		dst = append(strconv.AppendInt(append(dst, `,"index":`...), int64(i), 10), '}')
	}
	return e.appendTail(append(dst, ']'), true)
}

func appendParts(dst []byte, parts []answerPart) []byte {
	n := 0
	for i := range parts {
		p := &parts[i]
		sign := p.sign
		if next := i + 1; p.kind == chat.Text && next < len(parts) && parts[next].kind == chat.Redacted && parts[next].open {
			sign = parts[next].sign
			parts[next].sign = ""
		}
		if p.kind == chat.Redacted && p.sign == "" { // encodeSignature with the text
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		switch p.kind {
		case chat.ToolStart:
			dst = p.call.appendTo(dst)
		case chat.Extra:
			dst = wire.AppendLine(dst, p.text)
		case chat.Redacted:
			dst = appendText(dst, nil, !p.open, sign)
		default:
			dst = appendText(dst, p.text, p.kind == chat.Thought, sign)
		}
	}
	return dst
}
