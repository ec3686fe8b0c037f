package reasoning

import "bardo.money/gateway/extproc/chat"

// rewrite switches to rewriting: first the queue, then the current event.
func (r *Reader) rewrite(ev *chat.Event) {
	r.mode = rewriting
	r.out.KeepFirst(r.blocks)
	for i := range r.choices {
		if c := &r.choices[i]; c.hasThoughts {
			c.state = inText
		}
	}
	waited := r.queue
	r.queue = nil
	for i := range waited {
		r.write(&waited[i])
	}
	r.write(ev)
}

// write emits an event without the provider's bytes.
func (r *Reader) write(ev *chat.Event) {
	switch ev.Kind {
	case chat.Text:
		r.text(ev)
	case chat.Stop:
		r.finish(ev.Choice)
		r.out.Copy(ev)
	case chat.End, chat.Error:
		for n := range r.choices {
			r.finish(n)
		}
		r.out.Copy(ev)
	case chat.BlockStop:
		r.blockStop(ev)
	case chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart:
		r.interrupt(ev)
		r.out.CopyBlock(ev)
	case chat.ToolArgs:
		r.out.CopyBlock(ev)
	case chat.Extra:
		r.out.CopyExtra(ev)
	case chat.UsageInfo:
		r.usage(ev)
	case chat.Start, chat.Other:
		r.out.Copy(ev)
	}
}

// text adds a piece of a text block.
func (r *Reader) text(ev *chat.Event) {
	c := r.choice(ev.Choice)
	if c.open && c.block != ev.Index {
		r.finish(ev.Choice)
	}
	c.open, c.block = true, ev.Index
	c.feed(ev.Text)
	r.drain(c, ev.Choice, false)
}

// drain emits what is decided of a choice's text.
func (r *Reader) drain(c *choiceState, n int, end bool) {
	for {
		p, text := c.next(end)
		switch p {
		case partNone:
			return
		case partMarkup:
			if c.state == afterClose {
				r.closeBlock(c, n)
			}
		case partText:
			r.switchBlock(c, n, p)
			r.out.Assign(c.block, c.openBlock)
			r.emit(chat.Text, c.openBlock, n, text)
		case partThought:
			r.switchBlock(c, n, p)
			r.reasoningBytes += int64(len(text))
			r.emit(chat.Thought, c.openBlock, n, text)
		}
	}
}

func (r *Reader) emit(kind chat.EventKind, place, choice int, text []byte) {
	ev := r.out.Add()
	ev.Kind, ev.Index, ev.Choice, ev.Text = kind, place, choice, text
}

// switchBlock opens a block of text or reasoning, unless one of the same kind is open.
func (r *Reader) switchBlock(c *choiceState, n int, p part) {
	if c.openPart != p {
		r.closeBlock(c, n)
		c.openPart, c.openBlock = p, r.out.Open()
	}
}

// closeBlock ends the open block.
func (r *Reader) closeBlock(c *choiceState, n int) {
	if c.openPart != partNone {
		c.openPart = partNone
		r.out.Stop(c.openBlock, n)
	}
}

// finish ends a choice's text block and emits what was held back.
func (r *Reader) finish(n int) {
	if n >= len(r.choices) || !r.choices[n].open {
		return
	}
	c := &r.choices[n]
	c.feed(nil)
	r.drain(c, n, true)
	r.closeBlock(c, n)
	c.open = false
	c.endText()
}

// interrupt ends the text of a choice before another block.
func (r *Reader) interrupt(ev *chat.Event) {
	c := r.choice(ev.Choice)
	r.finish(ev.Choice)
	switch ev.Kind { //nolint:exhaustive // other kinds do not change whether a tag may follow
	case chat.ToolStart:
		if !c.hasThoughts {
			c.allowTag()
		}
	case chat.Thought:
		c.hasThoughts, c.state = true, inText
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

// bytesPerToken is the approximate size of a token of reasoning.
const bytesPerToken = 4

// usage adds an estimate of the reasoning tokens if the provider did not count them (D-42).
func (r *Reader) usage(ev *chat.Event) {
	u := &r.out.Copy(ev).Usage
	if u.Reasoning > 0 || u.Output == 0 || r.reasoningBytes == 0 {
		return
	}
	u.Reasoning, u.ReasoningEstimated = Estimate(r.reasoningBytes, u.Output), true
}

// Estimate is the approximate number of tokens of size bytes of reasoning, at most the output tokens of the answer.
func Estimate(size, output int64) int64 { return min((size+bytesPerToken-1)/bytesPerToken, output) }
