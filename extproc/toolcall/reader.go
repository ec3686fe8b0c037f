package toolcall

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
)

// Reader converts tool calls in the text of an answer to tool call events. The result does not depend on how the text is split into events;
// other text is forwarded unchanged. Not safe for concurrent use.
type Reader struct {
	format  Format
	tools   tools
	prefix  string // of call ids
	usage   usage
	choices []choiceState
	out     chat.Rewriter // renumbers blocks: calls may split a block of text
	calls   int
}

// choiceState is the state of one choice's text.
type choiceState struct {
	splitter
	open      bool // a block of text is open
	block     int  // its number in the provider's answer
	textOpen  bool // text was emitted since the block's start or the last call
	textBlock int  // block that this text was emitted to
	called    bool // the choice has a tool call
}

// NewReader reads an answer in which the model may call the offered tools. Call ids start with prefix, which must be unique to the answer.
func NewReader(f Format, offered []chat.Tool, prefix string) *Reader {
	return &Reader{format: f, tools: toolsByName(offered), prefix: prefix}
}

// Read converts an event. The returned events and their texts are valid until the next call, and as long as ev. They do not have the
// provider's bytes.
func (r *Reader) Read(ev *chat.Event) []chat.Event {
	r.out.Reset()
	switch ev.Kind {
	case chat.Text:
		r.text(ev)
	case chat.Stop:
		r.stop(ev)
	case chat.End, chat.Error:
		for n := range r.choices {
			r.finish(n)
		}
		r.out.Copy(ev)
	case chat.BlockStop:
		r.blockStop(ev)
	case chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart, chat.ToolArgs:
		r.interrupt(ev)
		r.out.CopyBlock(ev)
	case chat.Extra:
		r.out.CopyExtra(ev)
	case chat.Start, chat.UsageInfo, chat.Other:
		r.out.Copy(ev)
	}
	return r.out.Events
}

// choice is the state of a choice. Decoders bound their number.
func (r *Reader) choice(n int) *choiceState {
	for len(r.choices) <= n {
		r.choices = append(r.choices, choiceState{})
	}
	return &r.choices[n]
}

// text adds a piece of a text block.
func (r *Reader) text(ev *chat.Event) {
	c := r.choice(ev.Choice)
	if c.open && c.block != ev.Index {
		r.finish(ev.Choice)
	}
	if !c.open {
		c.open, c.block, c.textOpen = true, ev.Index, false
		c.splitter = splitter{find: newFinder(r.format, r.tools, &r.usage)}
	}
	c.feed(ev.Text)
	r.drain(ev.Choice, false)
}

// drain emits what is decided of a choice's text.
func (r *Reader) drain(n int, end bool) {
	c := &r.choices[n]
	for {
		v, part, found := c.next(end)
		switch v {
		case undecided:
			return
		case plainText:
			r.emitText(c, n, part)
		case toolCalls:
			r.emitCalls(c, n, found)
		}
	}
}

func (r *Reader) emitText(c *choiceState, n int, part []byte) {
	if len(part) == 0 {
		return
	}
	if !c.textOpen {
		c.textOpen, c.textBlock = true, r.out.Open()
		r.out.Assign(c.block, c.textBlock)
	}
	ev := r.out.Add()
	ev.Kind, ev.Index, ev.Choice, ev.Text = chat.Text, c.textBlock, n, part
}

// emitCalls emits each call as a block of its own.
func (r *Reader) emitCalls(c *choiceState, n int, found []chat.ToolCall) {
	r.closeText(c, n)
	for i := range found {
		c.called = true
		at := r.out.Open()
		r.calls++
		id := r.prefix + strconv.Itoa(r.calls)
		*r.out.Add() = chat.Event{Kind: chat.ToolStart, Index: at, Choice: n, Tool: chat.ToolCall{ID: id, Name: found[i].Name}}
		if args := found[i].Args; args != noArgs {
			*r.out.Add() = chat.Event{Kind: chat.ToolArgs, Index: at, Choice: n, Text: []byte(args)}
		}
		r.out.Stop(at, n)
	}
}

// closeText ends the current block of text.
func (r *Reader) closeText(c *choiceState, n int) {
	if c.textOpen {
		c.textOpen = false
		r.out.Stop(c.textBlock, n)
	}
}

// finish ends a choice's text block and emits what was held back.
func (r *Reader) finish(n int) {
	c := &r.choices[n]
	if !c.open {
		return
	}
	c.feed(nil)
	r.drain(n, true)
	r.closeText(c, n)
	c.open = false
}

// interrupt ends the text of a choice before another block.
func (r *Reader) interrupt(ev *chat.Event) {
	if n := ev.Choice; n < len(r.choices) && ev.Kind != chat.ToolArgs {
		r.finish(n)
	}
}

// blockStop ends a block, of text or of anything else.
func (r *Reader) blockStop(ev *chat.Event) {
	if n := ev.Choice; n < len(r.choices) && r.choices[n].open && r.choices[n].block == ev.Index {
		r.finish(n)
		return
	}
	if r.out.Has(ev.Index) {
		r.out.CopyBlock(ev)
	}
}

// stop emits the stop reason, which is tool use if there was a call.
func (r *Reader) stop(ev *chat.Event) {
	called := false
	if n := ev.Choice; n < len(r.choices) {
		r.finish(n)
		called = r.choices[n].called
	}
	e := r.out.Copy(ev)
	if called && (e.Reason == chat.StopEnd || e.Reason == chat.StopSequence) {
		e.Reason, e.Text = chat.StopTool, nil
	}
}
