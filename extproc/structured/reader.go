package structured

import "bardo.money/gateway/extproc/chat"

// Stage reads more into an answer than its provider's format says. The events that it returns, and their texts, are valid until the next
// call, as long as the event's own. Not safe for concurrent use.
type Stage interface {
	Read(ev *chat.Event) []chat.Event
}

// NewReader reads one answer to the plan; nil where its text is the answer already. It turns the synthetic call back to text, and
// leaves out the words around it. A turn in which the model calls the caller's own tools has no answer: its words and calls pass, and
// a synthetic call beside them does not. Where text is cut changes nothing.
func (p *Plan) NewReader() Stage {
	if p.Mode != Tool {
		return nil
	}
	return &reader{tool: p.tool, waits: p.waits}
}

// reader reads the calls of the synthetic tool.
type reader struct {
	tool  string
	waits bool // for the end of a turn, before anything of it passes

	choices []*turn
	out     chat.Rewriter
}

// turn is what a choice said so far.
type turn struct {
	waiting  []chat.Event // detached: words, which pass only if they are no decoration, and all else where the reader waits
	answered bool         // it called the synthetic tool
	answer   int          // the block of its first call
	wrote    bool         // the call has arguments
	called   bool         // it called another tool
	again    map[int]bool // blocks of further synthetic calls
}

func (r *reader) Read(ev *chat.Event) []chat.Event {
	r.out.Reset()
	switch ev.Kind {
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.BlockStop:
		r.content(ev)
	case chat.Extra:
		r.out.CopyExtra(ev)
	case chat.Stop:
		r.stop(ev)
	case chat.End, chat.Error:
		for _, t := range r.choices {
			r.finish(t)
		}
		r.out.Copy(ev)
	case chat.Start, chat.UsageInfo, chat.Other:
		r.out.Copy(ev)
	}
	return r.out.Events
}

// choice is the state of a choice. Decoders bound their number.
func (r *reader) choice(n int) *turn {
	for len(r.choices) <= n {
		r.choices = append(r.choices, &turn{answer: -1})
	}
	return r.choices[n]
}

func (r *reader) content(ev *chat.Event) {
	t := r.choice(ev.Choice)
	t.note(ev, r.tool)
	switch {
	case r.waits && len(t.waiting) == 0 && r.isThought(ev): // what came before anything else says nothing of the answer
		r.show(t, ev)
	case r.waits, ev.Kind == chat.Text, ev.Kind == chat.BlockStop && t.waitsFor(ev.Index):
		t.waiting = append(t.waiting, ev.Detached())
	default:
		r.show(t, ev)
	}
}

// isThought reports whether an event is of a block of thoughts.
func (r *reader) isThought(ev *chat.Event) bool {
	switch ev.Kind { //nolint:exhaustive // no others are
	case chat.Thought, chat.Signature, chat.Redacted:
		return true
	case chat.BlockStop:
		return r.out.Has(ev.Index)
	}
	return false
}

// note keeps what an event says of the turn.
func (t *turn) note(ev *chat.Event, tool string) {
	switch {
	case ev.Kind == chat.ToolArgs && t.answered && ev.Index == t.answer:
		t.wrote = t.wrote || len(ev.Text) > 0
	case ev.Kind != chat.ToolStart:
	case ev.Tool.Name != tool:
		t.called = true
	case !t.answered:
		t.answered, t.answer = true, ev.Index
	default:
		if t.again == nil {
			t.again = map[int]bool{}
		}
		t.again[ev.Index] = true
	}
}

// waitsFor reports whether a block is one of words that wait.
func (t *turn) waitsFor(block int) bool {
	for i := range t.waiting {
		if t.waiting[i].Index == block {
			return true
		}
	}
	return false
}

// show passes an event of content as it is to be seen.
func (r *reader) show(t *turn, ev *chat.Event) {
	switch {
	case t.answered && ev.Index == t.answer && isCall(ev):
		if t.called && r.waits {
			return
		}
		r.answer(t, ev)
	case t.again[ev.Index] && isCall(ev):
	case ev.Kind == chat.BlockStop:
		if r.out.Has(ev.Index) {
			r.out.CopyBlock(ev)
		}
	default:
		r.out.CopyBlock(ev)
	}
}

func isCall(ev *chat.Event) bool {
	return ev.Kind == chat.ToolStart || ev.Kind == chat.ToolArgs || ev.Kind == chat.BlockStop
}

// answer passes an event of the synthetic call as text.
func (r *reader) answer(t *turn, ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are of no call
	case chat.ToolArgs:
		if len(ev.Text) > 0 {
			r.out.CopyBlock(&chat.Event{Kind: chat.Text, Index: ev.Index, Choice: ev.Choice, Text: ev.Text})
		}
	case chat.BlockStop:
		r.empty(t, ev.Choice)
		r.out.CopyBlock(ev)
	}
}

// empty writes the answer of a call without arguments.
func (r *reader) empty(t *turn, choice int) {
	if !t.wrote {
		t.wrote = true
		r.out.CopyBlock(&chat.Event{Kind: chat.Text, Index: t.answer, Choice: choice, Text: []byte("{}")})
	}
}

// finish passes what waits in a turn: words only if they are the answer, or beside calls of the caller's tools.
func (r *reader) finish(t *turn) {
	waiting := t.waiting
	t.waiting = nil
	words := map[int]bool{}
	for i := range waiting {
		ev := &waiting[i]
		if ev.Kind == chat.Text {
			words[ev.Index] = true
		}
		if t.answered && !t.called && words[ev.Index] && !isAnswer(t, ev) {
			continue
		}
		r.show(t, ev)
	}
}

func isAnswer(t *turn, ev *chat.Event) bool { return ev.Index == t.answer }

// stop tells why the model stopped. If that was only for the synthetic call, it came to its end.
func (r *reader) stop(ev *chat.Event) {
	t := r.choice(ev.Choice)
	r.finish(t)
	if t.answered && (!t.called || !r.waits) {
		r.empty(t, ev.Choice)
	}
	e := r.out.Copy(ev)
	if t.answered && !t.called && e.Reason == chat.StopTool {
		e.Reason, e.Text = chat.StopEnd, nil
	}
}
