package reasoning

import "bardo.money/gateway/extproc/chat"

// rewrite tells the answer by its events from here on: first what waits, then the event at hand.
func (r *Reader) rewrite(ev *chat.Event) {
	r.mode = writing
	r.out.KeepFirst(r.blocks)
	for i := range r.choices {
		if c := &r.choices[i]; c.hasThoughts {
			c.state = talking
		}
	}
	waited := r.queue
	r.queue = nil
	for i := range waited {
		r.write(&waited[i])
	}
	r.write(ev)
}

// write tells an event without the bytes of its provider, which say it otherwise.
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
		r.other(ev)
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

// text takes a piece of a block of text.
func (r *Reader) text(ev *chat.Event) {
	c := r.choice(ev.Choice)
	if c.reads && c.block != ev.Index {
		r.finish(ev.Choice)
	}
	c.reads, c.block = true, ev.Index
	c.feed(ev.Text)
	r.drain(c, ev.Choice, false)
}

// drain tells what is decided of a choice's text.
func (r *Reader) drain(c *textOf, n int, end bool) {
	for {
		p, text := c.next(end)
		switch p {
		case nothing:
			return
		case frame:
			if c.state == leaving {
				r.hide(c, n)
			}
		case words:
			r.show(c, n, p)
			r.out.Assign(c.block, c.place)
			r.piece(chat.Text, c.place, n, text)
		case thoughts:
			r.show(c, n, p)
			r.shown += int64(len(text))
			r.piece(chat.Thought, c.place, n, text)
		}
	}
}

func (r *Reader) piece(kind chat.EventKind, place, choice int, text []byte) {
	ev := r.out.Add()
	ev.Kind, ev.Index, ev.Choice, ev.Text = kind, place, choice, text
}

// show opens a block of words or of thoughts, if none of the kind is open.
func (r *Reader) show(c *textOf, n int, p part) {
	if c.shown != p {
		r.hide(c, n)
		c.shown, c.place = p, r.out.Open()
	}
}

// hide ends the block that is shown.
func (r *Reader) hide(c *textOf, n int) {
	if c.shown != nothing {
		c.shown = nothing
		r.out.Stop(c.place, n)
	}
}

// finish ends a choice's block of text, with what was held back of it.
func (r *Reader) finish(n int) {
	if n >= len(r.choices) || !r.choices[n].reads {
		return
	}
	c := &r.choices[n]
	c.feed(nil)
	r.drain(c, n, true)
	r.hide(c, n)
	c.reads = false
	c.ended()
}

// other ends the text of a choice that goes on with something else.
func (r *Reader) other(ev *chat.Event) {
	c := r.choice(ev.Choice)
	r.finish(ev.Choice)
	switch ev.Kind { //nolint:exhaustive // the others open nothing
	case chat.ToolStart:
		if !c.hasThoughts {
			c.again()
		}
	case chat.Thought:
		c.hasThoughts, c.state = true, talking
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

// bytesPerToken is about how much of a thought makes a token.
const bytesPerToken = 4

// usage counts the thoughts that were found, where their provider did not (D-42).
func (r *Reader) usage(ev *chat.Event) {
	u := &r.out.Copy(ev).Usage
	if u.Reasoning > 0 || u.Output == 0 || r.shown == 0 {
		return
	}
	u.Reasoning, u.ReasoningEstimated = Estimate(r.shown, u.Output), true
}

// Estimate is about how many tokens so many bytes of thoughts are, of an answer of so many tokens of output.
func Estimate(size, output int64) int64 { return min((size+bytesPerToken-1)/bytesPerToken, output) }
