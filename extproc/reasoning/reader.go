package reasoning

import "bardo.money/gateway/extproc/chat"

// Reader makes events of thoughts out of the text of an answer in which a model marks them by tags. Where the text is cut changes
// nothing. An answer without tags passes as it came, its provider's bytes included, as soon as it is clear that there are none. Not safe
// for concurrent use.
type Reader struct {
	o       Options
	mode    mode
	choices []textOf
	queue   []chat.Event  // what waits until it is clear whether a tag stands there; of its own bytes
	size    int           // bytes of that
	out     chat.Rewriter // one block of text may become several, of text and of reasoning
	blocks  int           // of the answer that were forwarded unchanged
	shown   int64         // bytes of reasoning that were found
}

// Options say how an answer is read.
type Options struct {
	Tags     []Tags   // that may open thoughts
	Implicit bool     // the answer begins inside of thoughts: the model's prompt opened them
	Choices  int      // that the request asked for
	Closers  [][]byte // that end calls of tools which the model writes into its text
	Frames   bool     // what follows a frame of the provider's own bytes may be written anew: so it is in Chat Completions alone
}

// mode is how far the reader is.
type mode uint8

const (
	looking mode = iota // for a tag, while events wait
	passing             // there is none
	writing             // there is one: the answer is told by its events alone
)

// maxQueue is how much waits, in bytes, of choices beside one that begins in white space, or in half a tag.
const maxQueue = 256 << 10

// textOf is the text of one choice.
type textOf struct {
	splitter
	clear       bool   // it does not begin with a tag
	lead        []byte // what it began with, while that is not clear
	hasThoughts bool   // its provider sent reasoning apart from the text, so the text holds none
	called      bool   // a tool: a tag may come once more

	reads bool // a block of text is open
	block int  // its number in the provider's answer
	shown part // what of it is shown: words, thoughts or nothing
	place int  // where
}

// NewReader reads one answer.
func NewReader(o Options) *Reader {
	o.Choices = max(1, o.Choices)
	return &Reader{o: o}
}

// Read says what an event of the answer means. The events that it returns, and their texts, are valid until the next call, as long
// as the event's own.
func (r *Reader) Read(ev *chat.Event) []chat.Event {
	r.out.Reset()
	switch r.mode {
	case looking:
		r.look(ev)
	case passing:
		r.pass(ev)
	case writing:
		r.write(ev)
	}
	return r.out.Events
}

// choice is the state of a choice. Decoders bound their number.
func (r *Reader) choice(n int) *textOf {
	for len(r.choices) <= n {
		c := textOf{splitter: splitter{tags: r.o.Tags, closers: r.o.Closers, shut: r.o.Tags[0].close}}
		if r.o.Implicit {
			c.state = opened
		}
		r.choices = append(r.choices, c)
	}
	return &r.choices[n]
}

// look lets events wait until it is clear how each choice begins. Those of one frame go together.
func (r *Reader) look(ev *chat.Event) {
	if !ev.Tail && r.o.Choices > 1 && !r.waits() {
		r.release()
	}
	found, settled := r.inspect(ev)
	settled = settled || r.size > maxQueue
	switch {
	case found, settled && len(r.o.Closers) > 0:
		r.rewrite(ev)
	case settled:
		r.release()
		r.mode = passing
		r.pass(ev)
	default:
		r.size += len(ev.Text) + len(ev.Raw)
		r.queue = append(r.queue, ev.Detached())
	}
}

// waits reports whether some choice began in a way that is not clear.
func (r *Reader) waits() bool {
	for i := range r.choices {
		if c := &r.choices[i]; !c.clear && len(c.lead) > 0 {
			return true
		}
	}
	return false
}

// release passes on what waited, as it came.
func (r *Reader) release() {
	for i := range r.queue {
		r.pass(&r.queue[i])
	}
	r.queue, r.size = r.queue[:0], 0
}

// inspect looks at the beginning of the event's choice. found: it is a tag; settled: no choice begins with one.
func (r *Reader) inspect(ev *chat.Event) (found, settled bool) {
	switch ev.Kind {
	case chat.Text:
		c := r.choice(ev.Choice)
		if c.clear || len(ev.Text) == 0 {
			break
		}
		if c.state == opened {
			return true, false
		}
		c.clear, found = c.starts(ev.Text)
	case chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart, chat.Stop:
		c := r.choice(ev.Choice)
		c.clear = true
		c.hasThoughts = c.hasThoughts || ev.Kind == chat.Thought
	case chat.End, chat.Error:
		return false, true
	case chat.Start, chat.ToolArgs, chat.BlockStop, chat.UsageInfo, chat.Other, chat.Extra:
	}
	return found, !found && r.isClear()
}

// starts takes in one more piece of a choice's beginning, and reports whether it surely is no tag, and whether it is one.
func (c *textOf) starts(text []byte) (plain, found bool) {
	if len(c.lead) > 0 {
		c.lead = append(c.lead, text[:min(len(text), maxSpace+maxTag)]...)
		text = c.lead
	}
	probe := splitter{tags: c.tags}
	n, undecided := probe.look(text)
	if undecided && len(c.lead) == 0 {
		c.lead = append(c.lead, text...)
	}
	return n == 0 && !undecided, n > 0
}

// isClear reports whether as many choices as were asked for began, and none with a tag. Providers may number them as they like.
func (r *Reader) isClear() bool {
	n := 0
	for i := range r.choices {
		if r.choices[i].clear {
			n++
		}
	}
	return n >= r.o.Choices && !r.waits()
}

// pass takes an event over as it came. Behind a call of a tool, text may begin with a tag once more: where it begins a frame, or has none.
func (r *Reader) pass(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others have no blocks
	case chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolArgs:
		r.blocks = max(r.blocks, ev.Index+1)
	case chat.ToolStart:
		r.blocks = max(r.blocks, ev.Index+1)
		c := r.choice(ev.Choice)
		c.called = !c.hasThoughts
	case chat.Text:
		c := r.choice(ev.Choice)
		if c.called && len(ev.Text) > 0 && r.mode == passing {
			r.lookAgain(ev)
			return
		}
		r.blocks = max(r.blocks, ev.Index+1)
		c.state = talking
	}
	r.out.Events = append(r.out.Events, *ev)
}

// lookAgain looks at the text behind a call of a tool.
func (r *Reader) lookAgain(ev *chat.Event) {
	c := &r.choices[ev.Choice]
	c.called = false
	if ev.Tail || ev.Raw != nil && !r.o.Frames {
		r.out.Events = append(r.out.Events, *ev)
		return
	}
	c.clear, c.lead, c.state = false, c.lead[:0], leading
	r.mode = looking
	r.look(ev)
}
