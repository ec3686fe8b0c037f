package structured

import "bardo.money/gateway/extproc/chat"

// Stage transforms the events of an answer, for features that the provider's format does not have. The events that it returns, and their
// texts, are valid until the next call and as long as ev. Not safe for concurrent use.
type Stage interface {
	Read(ev *chat.Event) []chat.Event
}

// NewReader transforms one answer to the plan; nil if the model's text is the answer already. It converts the call of the plan's tool to text
// and drops the text around it. A turn in which the model calls the client's tools has no answer: its text and calls are forwarded, and a
// call of the plan's tool is dropped. The result does not depend on how the text is split into events.
func (p *Plan) NewReader() Stage {
	if p.Mode != Tool {
		return nil
	}
	return &reader{tool: p.tool, holdsTurn: p.holdsTurn}
}

// reader converts calls of the plan's tool.
type reader struct {
	tool      string
	holdsTurn bool // hold everything until the end of the turn

	choices []*choiceState
	out     chat.Rewriter
}

// choiceState is the state of one choice of the answer.
type choiceState struct {
	held        []chat.Event // text, until it is known whether there is an answer beside it; everything with holdsTurn
	answered    bool         // the plan's tool was called
	answer      int          // block of the first such call
	hasArgs     bool         // that call has arguments
	calledOther bool         // a tool of the client was called
	repeated    map[int]bool // blocks of further calls of the plan's tool
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

// choice returns the state of a choice. Decoders bound their number.
func (r *reader) choice(n int) *choiceState {
	for len(r.choices) <= n {
		r.choices = append(r.choices, &choiceState{answer: -1})
	}
	return r.choices[n]
}

func (r *reader) content(ev *chat.Event) {
	t := r.choice(ev.Choice)
	t.track(ev, r.tool)
	switch {
	case r.holdsTurn && len(t.held) == 0 && r.isThought(ev): // thoughts before anything else can be forwarded
		r.emit(t, ev)
	case r.holdsTurn, ev.Kind == chat.Text, ev.Kind == chat.BlockStop && t.isHeld(ev.Index):
		t.held = append(t.held, ev.Detached())
	default:
		r.emit(t, ev)
	}
}

// isThought reports whether an event belongs to a block of reasoning.
func (r *reader) isThought(ev *chat.Event) bool {
	switch ev.Kind { //nolint:exhaustive // other kinds are not
	case chat.Thought, chat.Signature, chat.Redacted:
		return true
	case chat.BlockStop:
		return r.out.Has(ev.Index)
	}
	return false
}

// track updates the state from an event.
func (t *choiceState) track(ev *chat.Event, tool string) {
	switch {
	case ev.Kind == chat.ToolArgs && t.answered && ev.Index == t.answer:
		t.hasArgs = t.hasArgs || len(ev.Text) > 0
	case ev.Kind != chat.ToolStart:
	case ev.Tool.Name != tool:
		t.calledOther = true
	case !t.answered:
		t.answered, t.answer = true, ev.Index
	default:
		if t.repeated == nil {
			t.repeated = map[int]bool{}
		}
		t.repeated[ev.Index] = true
	}
}

// isHeld reports whether events of a block are held back.
func (t *choiceState) isHeld(block int) bool {
	for i := range t.held {
		if t.held[i].Index == block {
			return true
		}
	}
	return false
}

// emit forwards a content event, converted if it belongs to the plan's tool.
func (r *reader) emit(t *choiceState, ev *chat.Event) {
	switch {
	case t.answered && ev.Index == t.answer && isCall(ev):
		if t.calledOther && r.holdsTurn {
			return
		}
		r.emitAnswer(t, ev)
	case t.repeated[ev.Index] && isCall(ev):
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

// emitAnswer forwards an event of the plan's tool call as text.
func (r *reader) emitAnswer(t *choiceState, ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // isCall has excluded the others
	case chat.ToolArgs:
		if len(ev.Text) > 0 {
			r.out.CopyBlock(&chat.Event{Kind: chat.Text, Index: ev.Index, Choice: ev.Choice, Text: ev.Text})
		}
	case chat.BlockStop:
		r.emitEmpty(t, ev.Choice)
		r.out.CopyBlock(ev)
	}
}

// emitEmpty writes {} as the answer of a call without arguments.
func (r *reader) emitEmpty(t *choiceState, choice int) {
	if !t.hasArgs {
		t.hasArgs = true
		r.out.CopyBlock(&chat.Event{Kind: chat.Text, Index: t.answer, Choice: choice, Text: []byte("{}")})
	}
}

// finish emits the held events of a turn. Text beside the plan's call is dropped, unless the model also called the client's tools.
func (r *reader) finish(t *choiceState) {
	waiting := t.held
	t.held = nil
	words := map[int]bool{}
	for i := range waiting {
		ev := &waiting[i]
		if ev.Kind == chat.Text {
			words[ev.Index] = true
		}
		if t.answered && !t.calledOther && words[ev.Index] && !isAnswer(t, ev) {
			continue
		}
		r.emit(t, ev)
	}
}

func isAnswer(t *choiceState, ev *chat.Event) bool { return ev.Index == t.answer }

// stop forwards the stop reason: a stop for the plan's tool call is a normal end.
func (r *reader) stop(ev *chat.Event) {
	t := r.choice(ev.Choice)
	r.finish(t)
	if t.answered && (!t.calledOther || !r.holdsTurn) {
		r.emitEmpty(t, ev.Choice)
	}
	e := r.out.Copy(ev)
	if t.answered && !t.calledOther && e.Reason == chat.StopTool {
		e.Reason, e.Text = chat.StopEnd, nil
	}
}
