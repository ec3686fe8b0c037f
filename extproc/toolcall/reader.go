package toolcall

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
)

// Reader makes events of calls out of the text of an answer in which a model writes them. Where the text is cut changes nothing, and what is
// no call passes as it came. Not safe for concurrent use.
type Reader struct {
	format  Format
	tools   tools
	prefix  string // of the ids of calls
	spent   spent
	choices []textOf
	out     chat.Rewriter // one block of text may become several, with calls in between
	calls   int
}

// textOf is the text of one choice.
type textOf struct {
	splitter
	reads  bool // a block of text is open
	block  int  // its number in the provider's answer
	shown  bool // words of it came since it began, or since a call
	place  int  // where they went
	called bool // the choice called a tool
}

// NewReader reads an answer in which the model may call the offered tools. The ids of its calls begin with prefix, which nobody else's do.
func NewReader(f Format, offered []chat.Tool, prefix string) *Reader {
	return &Reader{format: f, tools: index(offered), prefix: prefix}
}

// Read says what an event of the answer means. The events that it returns, and their texts, are valid until the next call, as long
// as the event's own. None of them has the provider's bytes.
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
		r.other(ev)
		r.out.CopyBlock(ev)
	case chat.Extra:
		r.out.CopyExtra(ev)
	case chat.Start, chat.UsageInfo, chat.Other:
		r.out.Copy(ev)
	}
	return r.out.Events
}

// choice is the state of a choice. Decoders bound their number.
func (r *Reader) choice(n int) *textOf {
	for len(r.choices) <= n {
		r.choices = append(r.choices, textOf{})
	}
	return &r.choices[n]
}

// text takes a piece of a block of text.
func (r *Reader) text(ev *chat.Event) {
	c := r.choice(ev.Choice)
	if c.reads && c.block != ev.Index {
		r.finish(ev.Choice)
	}
	if !c.reads {
		c.reads, c.block, c.shown = true, ev.Index, false
		c.splitter = splitter{find: newFinder(r.format, r.tools, &r.spent)}
	}
	c.feed(ev.Text)
	r.drain(ev.Choice, false)
}

// drain passes on what is decided of a choice's text.
func (r *Reader) drain(n int, end bool) {
	c := &r.choices[n]
	for {
		v, part, found := c.next(end)
		switch v {
		case undecided:
			return
		case words:
			r.words(c, n, part)
		case calls:
			r.call(c, n, found)
		}
	}
}

func (r *Reader) words(c *textOf, n int, part []byte) {
	if len(part) == 0 {
		return
	}
	if !c.shown {
		c.shown, c.place = true, r.out.Open()
		r.out.Assign(c.block, c.place)
	}
	ev := r.out.Add()
	ev.Kind, ev.Index, ev.Choice, ev.Text = chat.Text, c.place, n, part
}

// call tells calls, each a block of its own.
func (r *Reader) call(c *textOf, n int, found []chat.ToolCall) {
	r.hide(c, n)
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

// hide ends the block of words that is shown.
func (r *Reader) hide(c *textOf, n int) {
	if c.shown {
		c.shown = false
		r.out.Stop(c.place, n)
	}
}

// finish ends a choice's block of text, with what was held back of it.
func (r *Reader) finish(n int) {
	c := &r.choices[n]
	if !c.reads {
		return
	}
	c.feed(nil)
	r.drain(n, true)
	r.hide(c, n)
	c.reads = false
}

// other ends the text of a choice that goes on with something else.
func (r *Reader) other(ev *chat.Event) {
	if n := ev.Choice; n < len(r.choices) && ev.Kind != chat.ToolArgs {
		r.finish(n)
	}
}

// blockStop ends a block: that of a choice's text, or one of something else.
func (r *Reader) blockStop(ev *chat.Event) {
	if n := ev.Choice; n < len(r.choices) && r.choices[n].reads && r.choices[n].block == ev.Index {
		r.finish(n)
		return
	}
	if r.out.Has(ev.Index) {
		r.out.CopyBlock(ev)
	}
}

// stop tells why the model stopped. If it called a tool, it stopped for that.
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
