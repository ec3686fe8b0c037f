package guardrail

import (
	"context"
	"errors"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/policy"
)

// Response holds the answer until it is complete, and has the hooks inspect it.
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
		if err := l.checkAnswer(ctx, x, s); err != nil {
			return nil, err
		}
		out = append(append(out, s.events...), s.end(ev))
		s.events = nil
		return out, nil
	}
	s.events = append(s.events, ev.Detached())
	return out, nil
}

// end is the last event, without the provider's bytes if texts were replaced.
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

// checkAnswer has the hooks inspect the held answer, one after the other.
func (l Layer) checkAnswer(ctx context.Context, x *pipeline.Exchange, s *answer) error {
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

// position identifies a text of an answer.
type position struct {
	choice, index int
	kind          chat.EventKind
}

// block is a text of an answer.
type block struct {
	position

	tool  string
	bytes []byte
}

// kinds are the kinds of texts in answers, by their events.
var kinds = map[chat.EventKind]string{ //nolint:exhaustive // other events have no text
	chat.Text: "assistant", chat.Thought: "thinking", chat.Refusal: "refusal", chat.ToolArgs: "arguments",
}

// blocksOf are the texts of an answer, in the order in which they begin.
func blocksOf(events []chat.Event) (out []block) {
	at, tools := map[position]int{}, map[position]string{}
	for i := range events {
		ev := &events[i]
		p := position{ev.Choice, ev.Index, ev.Kind}
		if ev.Kind == chat.ToolStart {
			tools[position{ev.Choice, ev.Index, chat.ToolArgs}] = ev.Tool.Name
		}
		if kinds[ev.Kind] == "" || len(ev.Text) == 0 {
			continue
		}
		n, ok := at[p]
		if !ok {
			n = len(out)
			at[p] = n
			out = append(out, block{position: p, tool: tools[p]})
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

// replaceBlocks returns the events of an answer with some texts replaced, without the provider's bytes, which no longer match. Thinking can only be left out,
// by an empty text.
func replaceBlocks(events []chat.Event, blocks []block, list []replacement) ([]chat.Event, error) {
	texts := make(map[position][]byte, len(list))
	for _, r := range list {
		b := &blocks[*r.Index]
		if b.kind == chat.Thought && *r.Text != "" {
			return nil, errSigned
		}
		texts[b.position] = []byte(*r.Text)
	}
	out := make([]chat.Event, 0, len(events))
	written := map[position]bool{}
	for i := range events {
		e := events[i]
		e.Raw, e.Tail, e.ModelSpan, e.UsageChunk, e.Frame = nil, false, chat.Span{}, false, chat.NoCalls
		p := position{e.Choice, e.Index, e.Kind}
		text, replaced := texts[p]
		switch {
		case e.Kind == chat.Other || isOmitted(&e, texts):
			continue
		case replaced && written[p]:
			continue
		case replaced:
			written[p], e.Text = true, text
		case e.Kind == chat.Extra && (len(e.Cites) > 0 || refersToText[e.ID]):
			if _, ok := texts[position{e.Choice, e.Index, chat.Text}]; ok {
				continue
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// refersToText are the extras that refer to positions in a text.
var refersToText = map[string]bool{"citations": true, "annotations": true, "logprobs": true}

// isOmitted reports whether an event is a part of thinking that is left out.
func isOmitted(ev *chat.Event, texts map[position][]byte) bool {
	switch ev.Kind { //nolint:exhaustive // no other is a part of thinking
	case chat.Thought, chat.Signature, chat.BlockStop:
		_, ok := texts[position{ev.Choice, ev.Index, chat.Thought}]
		return ok
	}
	return false
}
