package reasoning

import "bardo.money/gateway/extproc/chat"

// Reader converts reasoning in tags within an answer's text to Thought events. The result does not depend on how the text is split into
// events. An answer without tags is forwarded unchanged, with its provider's bytes, as soon as it is known to have none. Not safe for
// concurrent use.
type Reader struct {
	options        Options
	mode           mode
	choices        []choiceState
	queue          []chat.Event  // detached events, held until it is known whether the text starts with a tag
	queueBytes     int           // size of queue
	out            chat.Rewriter // renumbers blocks: a block may be split into text and reasoning
	blocks         int           // number of blocks that were forwarded unchanged
	reasoningBytes int64         // bytes of reasoning found so far
}

// Options describe an answer.
type Options struct {
	Tags     []Tags   // tags that may open reasoning
	Implicit bool     // the answer starts with reasoning: the opening tag is in the model's prompt
	Choices  int      // number of requested choices
	Closers  [][]byte // closing tags of tool calls in the text
	Frames   bool     // a stream may switch from forwarding to rewriting between frames: true for Chat Completions only
}

// mode is the state of the reader.
type mode uint8

const (
	detecting  mode = iota // holding events until it is known whether there is a tag
	forwarding             // no tag: events are forwarded unchanged
	rewriting              // a tag: events are rewritten without the provider's bytes
)

// maxQueue is the limit of the queue in bytes. It fills while one choice has only white space or part of a tag and others continue.
const maxQueue = 256 << 10

// choiceState is the state of one choice.
type choiceState struct {
	splitter
	decided     bool   // the text does not start with a tag
	prefix      []byte // start of the text, while that is not known
	hasThoughts bool   // the provider sent reasoning separately, so the text has no tags
	afterCall   bool   // after a tool call: the next text may start with a tag

	open      bool // a text block is open
	block     int  // its number in the provider's answer
	openPart  part // kind of the output block that is open; partNone if none is
	openBlock int  // number of that block
}

// NewReader reads one answer.
func NewReader(o Options) *Reader {
	o.Choices = max(1, o.Choices)
	return &Reader{options: o}
}

// Read converts an event. The returned events and their texts are valid until the next call, and as long as ev.
func (r *Reader) Read(ev *chat.Event) []chat.Event {
	r.out.Reset()
	switch r.mode {
	case detecting:
		r.detect(ev)
	case forwarding:
		r.forward(ev)
	case rewriting:
		r.write(ev)
	}
	return r.out.Events
}

// choice is the state of a choice. Decoders bound their number.
func (r *Reader) choice(n int) *choiceState {
	for len(r.choices) <= n {
		c := choiceState{splitter: splitter{tags: r.options.Tags, closers: r.options.Closers, closeTag: r.options.Tags[0].close}}
		if r.options.Implicit {
			c.state = implicitStart
		}
		r.choices = append(r.choices, c)
	}
	return &r.choices[n]
}

// detect queues events until it is known how each choice starts. Events of one frame stay together.
func (r *Reader) detect(ev *chat.Event) {
	if !ev.Tail && r.options.Choices > 1 && !r.undecided() {
		r.flushQueue()
	}
	found, settled := r.inspect(ev)
	settled = settled || r.queueBytes > maxQueue
	switch {
	case found, settled && len(r.options.Closers) > 0:
		r.rewrite(ev)
	case settled:
		r.flushQueue()
		r.mode = forwarding
		r.forward(ev)
	default:
		r.queueBytes += len(ev.Text) + len(ev.Raw)
		r.queue = append(r.queue, ev.Detached())
	}
}

// undecided reports whether a choice's text so far may be the start of a tag.
func (r *Reader) undecided() bool {
	for i := range r.choices {
		if c := &r.choices[i]; !c.decided && len(c.prefix) > 0 {
			return true
		}
	}
	return false
}

// flushQueue forwards the queue unchanged.
func (r *Reader) flushQueue() {
	for i := range r.queue {
		r.forward(&r.queue[i])
	}
	r.queue, r.queueBytes = r.queue[:0], 0
}

// inspect checks the start of the event's choice. found is true if it is a tag, settled if no choice starts with one.
func (r *Reader) inspect(ev *chat.Event) (found, settled bool) {
	switch ev.Kind {
	case chat.Text:
		c := r.choice(ev.Choice)
		if c.decided || len(ev.Text) == 0 {
			break
		}
		if c.state == implicitStart {
			return true, false
		}
		c.decided, found = c.startsWithTag(ev.Text)
	case chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart, chat.Stop:
		c := r.choice(ev.Choice)
		c.decided = true
		c.hasThoughts = c.hasThoughts || ev.Kind == chat.Thought
	case chat.End, chat.Error:
		return false, true
	case chat.Start, chat.ToolArgs, chat.BlockStop, chat.UsageInfo, chat.Other, chat.Extra:
	}
	return found, !found && r.allDecided()
}

// startsWithTag adds a piece to the start of a choice. plain is true if it is not a tag, found if it is one.
func (c *choiceState) startsWithTag(text []byte) (plain, found bool) {
	if len(c.prefix) > 0 {
		c.prefix = append(c.prefix, text[:min(len(text), maxSpace+maxTag)]...)
		text = c.prefix
	}
	probe := splitter{tags: c.tags}
	n, undecided := probe.matchTag(text)
	if undecided && len(c.prefix) == 0 {
		c.prefix = append(c.prefix, text...)
	}
	return n == 0 && !undecided, n > 0
}

// allDecided reports whether as many choices as requested have started, none with a tag. Providers may number them arbitrarily.
func (r *Reader) allDecided() bool {
	n := 0
	for i := range r.choices {
		if r.choices[i].decided {
			n++
		}
	}
	return n >= r.options.Choices && !r.undecided()
}

// forward forwards an event unchanged. After a tool call, text may start with a tag again if it starts a frame or has no frame.
func (r *Reader) forward(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others have no blocks
	case chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolArgs:
		r.blocks = max(r.blocks, ev.Index+1)
	case chat.ToolStart:
		r.blocks = max(r.blocks, ev.Index+1)
		c := r.choice(ev.Choice)
		c.afterCall = !c.hasThoughts
	case chat.Text:
		c := r.choice(ev.Choice)
		if c.afterCall && len(ev.Text) > 0 && r.mode == forwarding {
			r.detectAgain(ev)
			return
		}
		r.blocks = max(r.blocks, ev.Index+1)
		c.state = inText
	}
	r.out.Events = append(r.out.Events, *ev)
}

// detectAgain looks for a tag in the text after a tool call.
func (r *Reader) detectAgain(ev *chat.Event) {
	c := &r.choices[ev.Choice]
	c.afterCall = false
	if ev.Tail || ev.Raw != nil && !r.options.Frames {
		r.out.Events = append(r.out.Events, *ev)
		return
	}
	c.decided, c.prefix, c.state = false, c.prefix[:0], atStart
	r.mode = detecting
	r.detect(ev)
}
