package pii

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
)

// block is a content block of an answer.
type block struct{ choice, index int }

// stream is the text of one kind in a block, which is restored piece by piece.
type stream struct {
	block
	kind     chat.EventKind
	id       string // of the events
	restorer *pii.Restorer
}

// Response restores the values in an event. What may be the beginning of a placeholder is held until the next event of its block, or the block's end.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	s := slot.Of(x)
	at := block{ev.Choice, ev.Index}
	switch ev.Kind {
	case chat.Start:
		s.streams, s.custom = nil, nil
	case chat.Text, chat.Thought, chat.Refusal:
		out = s.flush(out, func(st *stream) bool {
			return st.choice == at.choice && st.kind != chat.ToolArgs && (st.block != at || st.kind != ev.Kind)
		})
		return s.feed(out, ev, false), nil
	case chat.ToolArgs:
		return s.feed(out, ev, !s.custom[at]), nil
	case chat.ToolStart:
		out = s.flush(out, func(st *stream) bool { return st.choice == at.choice && st.kind != chat.ToolArgs })
		if ev.ID == chat.CustomTool {
			if s.custom == nil {
				s.custom = map[block]bool{}
			}
			s.custom[at] = true
		}
	case chat.Signature, chat.Redacted, chat.BlockStop:
		out = s.flush(out, func(st *stream) bool { return st.block == at })
	case chat.Stop, chat.End:
		out = s.flush(out, func(st *stream) bool { return st.choice == at.choice || ev.Kind != chat.Stop })
	case chat.Other: // pings, and frames around the text, which the encoder generates
		return out, nil
	case chat.UsageInfo, chat.Extra, chat.Error: // no flush: in some formats every piece of text has a usage
	}
	return append(out, s.restoreEvent(ev)), nil
}

// feed restores a piece of a stream.
func (s *state) feed(out []chat.Event, ev *chat.Event, inJSON bool) []chat.Event {
	st := s.stream(ev, inJSON)
	text := st.restorer.Feed(nil, ev.Text)
	if len(text) == 0 && len(ev.Text) > 0 {
		return out
	}
	e := withoutRaw(ev)
	e.Text = text
	return append(out, e)
}

func (s *state) stream(ev *chat.Event, inJSON bool) *stream {
	at := block{ev.Choice, ev.Index}
	for _, st := range s.streams {
		if st.block == at && st.kind == ev.Kind {
			return st
		}
	}
	st := &stream{block: at, kind: ev.Kind, id: ev.ID, restorer: s.vault.NewRestorer(inJSON)}
	s.streams = append(s.streams, st)
	return st
}

// flush appends the held text of some streams.
func (s *state) flush(out []chat.Event, which func(*stream) bool) []chat.Event {
	for _, st := range s.streams {
		if st.restorer.Holds() && which(st) {
			out = append(out, chat.Event{Kind: st.kind, Choice: st.choice, Index: st.index, ID: st.id, Text: st.restorer.Close(nil)})
		}
	}
	return out
}

// withoutRaw is an event without the provider's bytes, which have placeholders.
func withoutRaw(ev *chat.Event) chat.Event {
	e := *ev
	e.Raw, e.Tail, e.ModelSpan, e.UsageChunk, e.Frame = nil, false, chat.Span{}, false, chat.NoCalls
	return e
}

// restoreEvent restores the values in an event whose texts are complete.
func (s *state) restoreEvent(ev *chat.Event) chat.Event {
	e := withoutRaw(ev)
	switch ev.Kind { //nolint:exhaustive // the others have no text
	case chat.Extra:
		e.Text = s.restoreJSON(ev.Text)
		e.Cites = make([]chat.Citation, len(ev.Cites))
		for i, c := range ev.Cites {
			c.Title, c.Quote, c.URL = s.vault.Restore(c.Title), s.vault.Restore(c.Quote), s.vault.Restore(c.URL)
			e.Cites[i] = c
		}
	case chat.Stop:
		e.Text = []byte(s.vault.Restore(string(ev.Text)))
	}
	return e
}

// restoreJSON restores a JSON text.
func (s *state) restoreJSON(b []byte) jsonx.Raw {
	r := s.vault.NewRestorer(true)
	return r.Close(r.Feed(make([]byte, 0, len(b)), b))
}
