package guardrail

import (
	"context"
	"errors"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/policy"
)

// Response holds the answer until it is complete, and has the hooks look at it.
func (l Layer) Response(ctx context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	s := slot.Of(x)
	switch ev.Kind { //nolint:exhaustive // the others are held
	case chat.Start:
		s.events = nil
		x.Untag(Name)
	case chat.Error:
		s.events = nil
		return append(out, *ev), nil
	case chat.End:
		if err := l.lookAtAnswer(ctx, x, s); err != nil {
			return nil, err
		}
		out = append(append(out, s.events...), s.end(ev))
		s.events = nil
		return out, nil
	}
	s.events = append(s.events, ev.Detached())
	return out, nil
}

// end is the last event. Where texts were replaced, it has no bytes of the provider's either.
func (s *answer) end(ev *chat.Event) chat.Event {
	for i := range s.events {
		if s.events[i].Raw != nil || s.events[i].Tail {
			return *ev
		}
	}
	e := *ev
	e.Raw, e.Tail, e.ModelSpan = nil, false, chat.Span{}
	return e
}

// lookAtAnswer has the hooks look at the held answer, one after the other.
func (l Layer) lookAtAnswer(ctx context.Context, x *pipeline.Exchange, s *answer) error {
	for _, h := range s.hooks {
		blocks := blocksOf(s.events)
		v, err := l.ask(ctx, x, h, policy.StageResponse, textsOfBlocks(blocks))
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		events, err := replaceBlocks(s.events, blocks, v.Texts)
		if err != nil {
			if err := h.failed(x, policy.StageResponse, "bad_replacement"); err != nil {
				return err
			}
			continue
		}
		s.events = events
		h.tag(x, policy.StageResponse, policy.DecisionReplaced, v.Reason)
	}
	return nil
}

// place is where a text of an answer is.
type place struct {
	choice, index int
	kind          chat.EventKind
}

// block is a text of an answer.
type block struct {
	place

	tool  string
	bytes []byte
}

// kinds are what a hook reads of texts of answers; the rest has none.
var kinds = map[chat.EventKind]string{ //nolint:exhaustive // as said
	chat.Text: "assistant", chat.Thought: "thinking", chat.Refusal: "refusal", chat.ToolArgs: "arguments",
}

// blocksOf are the texts of an answer, in the order in which they begin.
func blocksOf(events []chat.Event) (out []block) {
	at, tools := map[place]int{}, map[place]string{}
	for i := range events {
		ev := &events[i]
		p := place{ev.Choice, ev.Index, ev.Kind}
		if ev.Kind == chat.ToolStart {
			tools[place{ev.Choice, ev.Index, chat.ToolArgs}] = ev.Tool.Name
		}
		if kinds[ev.Kind] == "" || len(ev.Text) == 0 {
			continue
		}
		n, ok := at[p]
		if !ok {
			n = len(out)
			at[p] = n
			out = append(out, block{place: p, tool: tools[p]})
		}
		out[n].bytes = append(out[n].bytes, ev.Text...)
	}
	return out
}

func textsOfBlocks(blocks []block) []text {
	out := make([]text, len(blocks))
	for i := range blocks {
		out[i] = text{Index: i, Role: string(chat.RoleAssistant), Kind: kinds[blocks[i].kind], Tool: blocks[i].tool, Text: string(blocks[i].bytes)}
	}
	return out
}

var errSigned = errors.New("thinking may be signed, and can only be left out")

// replaceBlocks returns the events of an answer with other texts, without the provider's bytes: they no longer match. Thinking can be left out, by an empty
// text, and not be changed.
func replaceBlocks(events []chat.Event, blocks []block, list []replacement) ([]chat.Event, error) {
	texts := make(map[place][]byte, len(list))
	for _, r := range list {
		b := &blocks[*r.Index]
		if b.kind == chat.Thought && *r.Text != "" {
			return nil, errSigned
		}
		texts[b.place] = []byte(*r.Text)
	}
	out := make([]chat.Event, 0, len(events))
	written := map[place]bool{}
	for i := range events {
		e := events[i]
		e.Raw, e.Tail, e.ModelSpan, e.UsageChunk, e.Frame = nil, false, chat.Span{}, false, chat.NoCalls
		p := place{e.Choice, e.Index, e.Kind}
		text, replaced := texts[p]
		switch {
		case e.Kind == chat.Other || leftOut(&e, texts):
			continue
		case replaced && written[p]:
			continue
		case replaced:
			written[p], e.Text = true, text
		case e.Kind == chat.Extra && (len(e.Cites) > 0 || aboutText[e.ID]):
			if _, ok := texts[place{e.Choice, e.Index, chat.Text}]; ok {
				continue
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// aboutText are extras that refer to places of a text.
var aboutText = map[string]bool{"citations": true, "annotations": true, "logprobs": true}

// leftOut reports whether an event belongs to thinking that is left out.
func leftOut(ev *chat.Event, texts map[place][]byte) bool {
	switch ev.Kind { //nolint:exhaustive // no other is a part of thinking
	case chat.Thought, chat.Signature, chat.BlockStop:
		_, ok := texts[place{ev.Choice, ev.Index, chat.Thought}]
		return ok
	}
	return false
}
