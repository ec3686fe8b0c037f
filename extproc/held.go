package extproc

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/jsonx"
)

// An answer that shall have a form is read along while it passes, or while it is held back, and checked when it is complete.

// formed is what an answer said so far, of what its form is about.
type formed struct {
	plan *structured.Plan
	said []utterance // by choice
}

// utterance is one choice of an answer.
type utterance struct {
	text     []byte
	calls    bool // a tool of the client's own
	declines bool
	stop     chat.StopReason
	open     bool // it is no answer to be checked
}

// isOpen reports whether there is nothing to be checked: the model calls a tool of the client's, pauses, or declines what the client asked
// for.
func (s *utterance) isOpen(ours bool) bool {
	return s.calls || s.stop == chat.StopPause || s.declines && !ours
}

// mostChoices bounds what an answer's numbers of choices may make the gateway set up.
const mostChoices = 128

func (f *formed) note(ev *chat.Event) {
	switch ev.Kind {
	case chat.Text, chat.Refusal, chat.ToolStart, chat.Stop:
	default:
		return
	}
	if ev.Choice < 0 || ev.Choice >= mostChoices {
		return
	}
	for len(f.said) <= ev.Choice {
		f.said = append(f.said, utterance{})
	}
	s := &f.said[ev.Choice]
	switch ev.Kind { //nolint:exhaustive // as above
	case chat.Text:
		s.text = append(s.text, ev.Text...)
	case chat.Refusal:
		s.declines = true
	case chat.ToolStart:
		s.calls = true
	case chat.Stop:
		s.stop = ev.Reason
		s.declines = s.declines || ev.Reason == chat.StopRefusal
	}
}

// judgement is what the check of a complete answer came to. Of several choices the client takes the one it likes.
type judgement struct {
	open     bool // no choice is an answer to be checked
	valid    bool // every choice that is to be checked follows the form
	good     int  // choices that the client may take
	declines bool
	verdicts []structured.Verdict // by choice
	wrong    int                  // the first choice that does not follow the form
	cut      bool                 // that choice was cut off where it grew too long
	raw      []byte               // that choice, else the first, as the model wrote it
}

// judge checks a complete answer.
func (x *exchange) judge(a *answer) *judgement {
	f := a.form
	if len(f.said) == 0 {
		f.said = make([]utterance, 1)
	}
	j := &judgement{open: true, valid: true, verdicts: make([]structured.Verdict, len(f.said)), raw: f.said[0].text}
	for i := range f.said {
		s := &f.said[i]
		if s.open = s.isOpen(x.form.Ours()); s.open {
			j.good++
			continue
		}
		v := f.plan.Check(s.text, s.stop)
		j.open, j.verdicts[i], j.declines = false, v, j.declines || s.declines
		switch {
		case v.Valid():
			j.good++
		case j.valid:
			j.valid, j.wrong, j.raw, j.cut = false, i, s.text, structured.IsCut(s.stop)
		}
	}
	return j
}

// passes reports whether an answer goes to the client as it was read. One choice that follows the form is enough, but of a form that is
// strict. In JSON mode, so does an answer that was cut off where it grew too long, and says so: it would be cut off again.
func (x *exchange) passes(j *judgement) bool {
	return j.open || j.valid || x.form.IsAnyObject() && j.cut || !x.rt.Structured.Validate || j.good > 0 && !x.form.Strict()
}

// mostRaw is how much of a model's answer stands in an error.
const mostRaw = 16 << 10

// details tell a caller what its model said in the place of an answer, and what is wrong with that.
func (j *judgement) details(schema string, retries int) string {
	b := jsonx.AppendString([]byte(`{"schema":`), schema)
	b = appendInt(b, `,"retries":`, int64(retries))
	b = append(b, `,"issues":[`...)
	for i, issue := range j.verdicts[j.wrong].Issues {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, issue)
	}
	raw := j.raw[:min(len(j.raw), mostRaw)]
	b = jsonx.AppendString(append(b, `],"raw":`...), bytes.ToValidUTF8(raw, nil))
	if len(raw) < len(j.raw) {
		b = append(b, `,"truncated":true`...)
	}
	return string(append(b, '}'))
}

// shown are the events of a held answer as the client shall see them: those that came, if they say what was read out of them.
func (x *exchange) shown(a *answer, j *judgement) []chat.Event {
	asCame := j.open || a.form == nil
	if len(x.bill.Calls()) == 0 && (asCame || j.asSaid(a.form.said)) {
		return a.held
	}
	events := a.held
	if !asCame {
		events = j.rewrite(a.held, a.form.said)
	} else {
		bare(events)
	}
	x.sumUsage(a, events)
	return events
}

// sumUsage has an answer's events speak of what all calls of the request used.
func (x *exchange) sumUsage(a *answer, events []chat.Event) {
	if len(x.bill.Calls()) > 0 {
		shownUsage(events, x.owed(a).Usage)
	}
}

// asSaid reports whether the answers are what the model wrote, byte for byte.
func (j *judgement) asSaid(said []utterance) bool {
	for i := range j.verdicts {
		if v := &j.verdicts[i]; v.JSON != nil && !bytes.Equal(v.JSON, said[i].text) {
			return false
		}
	}
	return true
}

// bare takes the provider's own bytes off events: they no longer say what is meant.
func bare(events []chat.Event) {
	for i := range events {
		events[i].Raw, events[i].Tail, events[i].UsageChunk = nil, false, false
	}
}

// rewrite puts what was read out of an answer in the place of its text.
func (j *judgement) rewrite(held []chat.Event, said []utterance) []chat.Event {
	w := rewriter{texts: make([]rewrittenText, len(said)), out: make([]chat.Event, 0, len(held)+1)}
	for i := range said {
		w.texts[i].json, w.texts[i].stays = said[i].text, said[i].open
		if v := j.verdicts[i].JSON; v != nil {
			w.texts[i].json = v
		}
	}
	for i := range held {
		w.last = max(w.last, held[i].Index)
	}
	for i := range held {
		w.event(&held[i])
	}
	bare(w.out)
	return w.out
}

// rewriter writes an answer with other words.
type rewriter struct {
	texts []rewrittenText // by choice
	out   []chat.Event
	last  int // the highest index of a block
}

type rewrittenText struct {
	json    []byte
	stays   bool // it is said as it came
	written bool
	index   int   // of the block
	dropped []int // blocks whose text is a part of it
}

func (w *rewriter) event(ev *chat.Event) {
	if ev.Choice < 0 || ev.Choice >= len(w.texts) || w.texts[ev.Choice].stays {
		w.out = append(w.out, *ev)
		return
	}
	t := &w.texts[ev.Choice]
	switch ev.Kind { //nolint:exhaustive // the rest stays
	case chat.Other: // it has a meaning only as it came
		return
	case chat.Text:
		w.text(t, ev)
		return
	case chat.BlockStop:
		if slices.Contains(t.dropped, ev.Index) {
			return
		}
	case chat.Stop:
		if !t.written {
			w.last++
			w.text(t, &chat.Event{Kind: chat.Text, Choice: ev.Choice, Index: w.last})
			w.out = append(w.out, chat.Event{Kind: chat.BlockStop, Choice: ev.Choice, Index: w.last})
		}
		stop := *ev
		if stop.Reason == chat.StopTool {
			stop.Reason = chat.StopEnd
		}
		w.out = append(w.out, stop)
		return
	}
	w.out = append(w.out, *ev)
}

// text writes all of a choice's text where its first piece stood.
func (w *rewriter) text(t *rewrittenText, ev *chat.Event) {
	if t.written {
		if ev.Index != t.index {
			t.dropped = append(t.dropped, ev.Index)
		}
		return
	}
	t.written, t.index = true, ev.Index
	text := *ev
	text.Text = t.json
	w.out = append(w.out, text)
}

// inPlace are the events of an answer that says something else in the place of one that is no good, in each of its choices: of the latter,
// who gave it and what it took.
func inPlace(held []chat.Event, text []byte) []chat.Event {
	out := make([]chat.Event, 0, len(held)+2)
	said := make([]bool, choicesOf(held))
	say := func(n int) {
		if n < 0 || n >= len(said) || said[n] {
			return
		}
		said[n] = true
		out = append(out, chat.Event{Kind: chat.Text, Choice: n, Index: n, Text: text},
			chat.Event{Kind: chat.BlockStop, Choice: n, Index: n}, chat.Event{Kind: chat.Stop, Choice: n, Reason: chat.StopEnd})
	}
	for i := range held {
		ev := &held[i]
		switch ev.Kind { //nolint:exhaustive // the rest is the answer that is no good
		case chat.Start, chat.UsageInfo:
			out = append(out, *ev)
		case chat.Stop:
			say(ev.Choice)
		case chat.End:
			for n := range said {
				say(n)
			}
			out = append(out, *ev)
		}
	}
	bare(out)
	return out
}

// choicesOf is how many choices an answer has.
func choicesOf(held []chat.Event) int {
	n := 1
	for i := range held {
		n = max(n, held[i].Choice+1)
	}
	return min(n, mostChoices)
}
