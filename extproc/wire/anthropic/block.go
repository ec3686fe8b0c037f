package anthropic

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// pendingBlock is a content block that is being written or waits for its turn.
type pendingBlock struct {
	kind    chat.EventKind // Text, Thought, Redacted, ToolStart or Extra
	index   int            // in the provider's answer
	tool    chat.ToolCall
	text    []byte   // what has not been written: text, thinking, arguments, redacted data, or a whole block's JSON
	sign    []byte   // signature of a thinking block
	cites   [][]byte // citations of a text block
	noted   []string // of these, the pages that another format cites
	stopped bool
}

// blocks puts events of any order into content blocks. Text goes on in the last block when that is text of the same
// index; the arguments of tools, which may come interleaved, find their own.
type blocks []pendingBlock

// add puts a piece of the answer into its block.
func (bs *blocks) add(ev *chat.Event) {
	if len(ev.Text) == 0 && ev.Kind != chat.ToolStart && ev.Kind != chat.BlockStop {
		return
	}
	switch ev.Kind { //nolint:exhaustive // the others are no content.
	case chat.Text, chat.Refusal: // a refusal is told in words
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
			b.cites = append(b.cites, bytes.Clone(ev.Text))
			return
		}
		b := bs.open(pendingBlock{kind: chat.Extra, index: ev.Index, stopped: true})
		b.text = append(b.text, ev.Text...)
	}
}

// last returns the last block, when text of this kind and index goes on in it, or a new one.
func (bs *blocks) last(kind chat.EventKind, index int) *pendingBlock {
	if n := len(*bs); n > 0 {
		if b := &(*bs)[n-1]; b.kind == kind && b.index == index && !b.stopped {
			return b
		}
	}
	return bs.open(pendingBlock{kind: kind, index: index})
}

// open appends a block. Every block before it that is not a tool's is complete thereby.
func (bs *blocks) open(b pendingBlock) *pendingBlock {
	for i := range *bs {
		if o := &(*bs)[i]; o.kind != chat.ToolStart {
			o.stopped = true
		}
	}
	*bs = append(*bs, b)
	return &(*bs)[len(*bs)-1]
}

// call opens the block of a tool's call. A call that is announced twice is one.
func (bs *blocks) call(ev *chat.Event) {
	if b := bs.tool(ev.Index); b != nil {
		if b.tool.ID == ev.Tool.ID {
			return
		}
		b.stopped = true
	}
	bs.open(pendingBlock{kind: chat.ToolStart, index: ev.Index, tool: chat.ToolCall{ID: ev.Tool.ID, Name: ev.Tool.Name}})
}

// tool returns the block of an index's call that may still go on, or nil.
func (bs *blocks) tool(index int) *pendingBlock {
	for i := len(*bs) - 1; i >= 0; i-- {
		if b := &(*bs)[i]; b.kind == chat.ToolStart && b.index == index && !b.stopped {
			return b
		}
	}
	return nil
}

// stop completes the block of an index.
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

// drop forgets the first block, which is written.
func (bs *blocks) drop() { *bs = slices.Delete(*bs, 0, 1) }

// appendStart appends the block as it begins, empty but for what comes whole.
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
		dst = appendInput(b.appendTool(dst), b.text)
	default:
		dst = append(dst, `{"type":"text","text":`...)
		dst = jsonx.AppendString(dst, b.text)
		if len(b.cites) > 0 {
			dst = append(dst, `,"citations":[`...)
			dst = append(append(dst, bytes.Join(b.cites, []byte{','})...), ']')
		}
	}
	return append(dst, '}')
}

// appendForeign appends a block that only this dialect knows as it begins: with an empty input, whose text is left for a
// delta. A block without input comes whole.
func (b *pendingBlock) appendForeign(dst []byte) []byte {
	v := jsonx.Value{Raw: b.text}
	input := v.Get("input")
	if b.text = nil; hasMembers(input) {
		b.text = input.Raw
		v = with(v, "input", []byte("{}"))
	}
	return wire.AppendLine(dst, v.Raw)
}

// appendTool appends a call up to its input.
func (b *pendingBlock) appendTool(dst []byte) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = jsonx.AppendString(dst, b.tool.ID)
	dst = append(dst, `,"name":`...)
	dst = jsonx.AppendString(dst, b.tool.Name)
	return append(dst, `,"input":`...)
}
