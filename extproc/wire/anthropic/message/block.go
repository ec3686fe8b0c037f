package message

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// pendingBlock is a content block that is being written, or waits for the blocks before it.
type pendingBlock struct {
	kind       chat.EventKind // Text, Thought, Redacted, ToolStart or Extra
	index      int            // index in the provider's answer
	tool       chat.ToolCall
	text       []byte   // what is not written yet: text, thinking, arguments, redacted data, or a whole block's JSON
	sign       []byte   // signature of a thinking block
	citations  [][]byte // of a text block
	citedPages []string // URL and quote of each page that another format cited
	stopped    bool
}

// blocks assigns events to content blocks. Text continues the last block if that is text of the same index; tool arguments, which may be
// interleaved, continue the block of their call.
type blocks []pendingBlock

// add adds an event to its block.
func (bs *blocks) add(ev *chat.Event) {
	if len(ev.Text) == 0 && ev.Kind != chat.ToolStart && ev.Kind != chat.BlockStop {
		return
	}
	switch ev.Kind { //nolint:exhaustive // the others are not content
	case chat.Text, chat.Refusal: // a refusal is written as text
		b := bs.last(chat.Text, ev.Index)
		b.text = append(b.text, ev.Text...)
	case chat.Thought:
		b := bs.last(chat.Thought, ev.Index)
		b.text = append(b.text, ev.Text...)
	case chat.Signature:
		b := bs.last(chat.Thought, ev.Index)
		b.sign = append(b.sign, ev.Text...)
	case chat.Redacted:
		b := bs.open(pendingBlock{kind: chat.Redacted, index: ev.Index, stopped: true})
		b.text = append(b.text, ev.Text...)
	case chat.ToolStart:
		bs.call(ev)
	case chat.ToolArgs:
		if b := bs.tool(ev.Index); b != nil {
			b.text = append(b.text, ev.Text...)
		}
	case chat.BlockStop:
		bs.stop(ev.Index)
	case chat.Extra:
		if ev.ID == citations {
			b := bs.last(chat.Text, ev.Index)
			b.citations = append(b.citations, bytes.Clone(ev.Text))
			return
		}
		b := bs.open(pendingBlock{kind: chat.Extra, index: ev.Index, stopped: true})
		b.text = append(b.text, ev.Text...)
	}
}

// last returns the last block if it is incomplete and of this kind and index, else a new one.
func (bs *blocks) last(kind chat.EventKind, index int) *pendingBlock {
	if n := len(*bs); n > 0 {
		if b := &(*bs)[n-1]; b.kind == kind && b.index == index && !b.stopped {
			return b
		}
	}
	return bs.open(pendingBlock{kind: kind, index: index})
}

// open appends a block, which completes all earlier blocks except those of tools.
func (bs *blocks) open(b pendingBlock) *pendingBlock {
	for i := range *bs {
		if o := &(*bs)[i]; o.kind != chat.ToolStart {
			o.stopped = true
		}
	}
	*bs = append(*bs, b)
	return &(*bs)[len(*bs)-1]
}

// call opens the block of a tool call, unless it is open.
func (bs *blocks) call(ev *chat.Event) {
	if b := bs.tool(ev.Index); b != nil {
		if b.tool.ID == ev.Tool.ID {
			return
		}
		b.stopped = true
	}
	bs.open(pendingBlock{kind: chat.ToolStart, index: ev.Index, tool: chat.ToolCall{ID: ev.Tool.ID, Name: ev.Tool.Name}})
}

// tool returns the incomplete block of the call with an index; nil if there is none.
func (bs *blocks) tool(index int) *pendingBlock {
	for i := len(*bs) - 1; i >= 0; i-- {
		if b := &(*bs)[i]; b.kind == chat.ToolStart && b.index == index && !b.stopped {
			return b
		}
	}
	return nil
}

// stop completes the blocks with an index.
func (bs *blocks) stop(index int) {
	for i := range *bs {
		if b := &(*bs)[i]; b.index == index {
			b.stopped = true
		}
	}
}

// stopAll completes every block.
func (bs *blocks) stopAll() {
	for i := range *bs {
		(*bs)[i].stopped = true
	}
}

// drop removes the first block, which has been written.
func (bs *blocks) drop() { *bs = slices.Delete(*bs, 0, 1) }

// appendStart appends the start of the block: empty, unless its content is complete.
func (b *pendingBlock) appendStart(dst []byte) []byte {
	switch b.kind {
	case chat.Thought:
		return append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	case chat.Redacted:
		dst = append(dst, `{"type":"redacted_thinking","data":`...)
		return append(jsonx.AppendString(dst, b.text), '}')
	case chat.ToolStart:
		return append(b.appendTool(dst), `{}}`...)
	case chat.Extra:
		return b.appendForeign(dst)
	default:
		return append(dst, `{"type":"text","text":""}`...)
	}
}

// appendWhole appends the complete block.
func (b *pendingBlock) appendWhole(dst []byte) []byte {
	switch b.kind {
	case chat.Thought:
		dst = append(dst, `{"type":"thinking","thinking":`...)
		dst = jsonx.AppendString(dst, b.text)
		dst = append(dst, `,"signature":`...)
		dst = jsonx.AppendString(dst, b.sign)
	case chat.Redacted:
		return b.appendStart(dst)
	case chat.Extra:
		return append(dst, b.text...)
	case chat.ToolStart:
		dst = AppendInput(b.appendTool(dst), b.text)
	default:
		dst = append(dst, `{"type":"text","text":`...)
		dst = jsonx.AppendString(dst, b.text)
		if len(b.citations) > 0 {
			dst = append(dst, `,"citations":[`...)
			dst = append(append(dst, bytes.Join(b.citations, []byte{','})...), ']')
		}
	}
	return append(dst, '}')
}

// appendForeign appends the start of a block of this dialect only: with an empty input, whose text remains for a delta. A block without
// input is appended whole.
func (b *pendingBlock) appendForeign(dst []byte) []byte {
	v := jsonx.Value{Raw: b.text}
	input := v.Get("input")
	if b.text = nil; hasMembers(input) {
		b.text = input.Raw
		v = withMember(v, "input", []byte("{}"))
	}
	return wire.AppendLine(dst, v.Raw)
}

// appendTool appends a tool call up to its input.
func (b *pendingBlock) appendTool(dst []byte) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = jsonx.AppendString(dst, b.tool.ID)
	dst = append(dst, `,"name":`...)
	dst = jsonx.AppendString(dst, b.tool.Name)
	return append(dst, `,"input":`...)
}
