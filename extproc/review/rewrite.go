package review

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
)

// DropRaw removes the provider's own bytes from events that were changed: the bytes no longer match them.
func DropRaw(events []chat.Event) {
	for i := range events {
		events[i].Raw, events[i].Tail, events[i].UsageChunk, events[i].Frame = nil, false, false, chat.NoCalls
	}
}

// SetTotalUsage sets the usage in an answer's events to that of all calls: the client sees what it pays for. The provider's own bytes, which report
// the last call alone, are dropped.
func SetTotalUsage(events []chat.Event, all chat.Usage) {
	last := -1
	for i := range events {
		if events[i].Kind != chat.UsageInfo {
			continue
		}
		u := &events[i].Usage
		u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h = all.Input, all.Cached, all.CacheWrite, all.CacheWrite1h
		events[i].Text, last = nil, i
	}
	if last >= 0 {
		all.Final = true
		events[last].Usage = all
	}
}

// Rewrite replaces the text of each choice with the JSON that was found in it.
func (j *Validation) Rewrite(held []chat.Event, texts []choiceText) []chat.Event {
	w := rewriter{texts: make([]rewrittenText, len(texts)), out: make([]chat.Event, 0, len(held)+1)}
	for i := range texts {
		w.texts[i].json, w.texts[i].unchanged = texts[i].text, texts[i].unchecked
		if v := j.Choices[i].JSON; v != nil {
			w.texts[i].json = v
		}
	}
	for i := range held {
		w.last = max(w.last, held[i].Index)
	}
	for i := range held {
		w.event(&held[i])
	}
	DropRaw(w.out)
	return w.out
}

// rewriter copies an answer's events with other texts.
type rewriter struct {
	texts []rewrittenText // by choice
	out   []chat.Event
	last  int // the highest index of a block
}

type rewrittenText struct {
	json      []byte
	unchanged bool // the choice keeps its events
	written   bool
	index     int   // of the block
	dropped   []int // blocks whose text was merged into this one
}

func (w *rewriter) event(ev *chat.Event) {
	if ev.Choice < 0 || ev.Choice >= len(w.texts) || w.texts[ev.Choice].unchanged {
		w.out = append(w.out, *ev)
		return
	}
	t := &w.texts[ev.Choice]
	switch ev.Kind { //nolint:exhaustive // others are copied
	case chat.Other: // only meaningful beside the provider's own bytes
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

// text writes a choice's whole text in place of its first chunk.
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

// ReplaceText returns the events of a rejected answer with another text in each choice. Its start and its usage are kept.
func ReplaceText(held []chat.Event, text []byte) []chat.Event {
	out := make([]chat.Event, 0, len(held)+2)
	replaced := make([]bool, countChoices(held))
	say := func(n int) {
		if n < 0 || n >= len(replaced) || replaced[n] {
			return
		}
		replaced[n] = true
		out = append(out, chat.Event{Kind: chat.Text, Choice: n, Index: n, Text: text},
			chat.Event{Kind: chat.BlockStop, Choice: n, Index: n}, chat.Event{Kind: chat.Stop, Choice: n, Reason: chat.StopEnd})
	}
	for i := range held {
		ev := &held[i]
		switch ev.Kind { //nolint:exhaustive // the rest is the rejected answer
		case chat.Start, chat.UsageInfo:
			out = append(out, *ev)
		case chat.Stop:
			say(ev.Choice)
		case chat.End:
			for n := range replaced {
				say(n)
			}
			out = append(out, *ev)
		}
	}
	DropRaw(out)
	return out
}

// countChoices returns how many choices an answer has.
func countChoices(held []chat.Event) int {
	n := 1
	for i := range held {
		n = max(n, held[i].Choice+1)
	}
	return min(n, maxChoices)
}
