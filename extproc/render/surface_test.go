package render

import (
	"bytes"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestD44ReasoningOnEachSurface(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                               string
		hides, attaches, progresses, keeps bool
	}{
		{"", false, false, false, false},
		{"api", false, false, false, false},
		{"newspaper", false, false, false, false},
		{"web", false, true, false, false},
		{"tui", true, false, true, false},
		{"telegram", true, false, false, false},
		{"discord", true, false, false, true},
	} {
		v := View{Surface: SurfaceOf(row.name)}
		if v.Hides() != row.hides || v.Attaches() != row.attaches || v.Progresses() != row.progresses || v.Stores() != row.keeps {
			t.Errorf("%q: hides %v, attaches %v, progresses %v, keeps %v", row.name, v.Hides(), v.Attaches(), v.Progresses(), v.Stores())
		}
		if v.Full = true; !v.Attaches() || v.Hides() != row.hides {
			t.Errorf("%q: who asks for the chain gets it beside what the surface shows", row.name)
		}
	}
}

func TestNamesOfSurfaces(t *testing.T) {
	t.Parallel()
	for s := API; s <= Discord; s++ {
		if s.String() == "" || SurfaceOf(s.String()) != s {
			t.Errorf("%d is called %q, which is %d", s, s, SurfaceOf(s.String()))
		}
	}
	if (Discord + 1).String() != "" {
		t.Error("a surface that there is not has a name")
	}
}

func TestHideRemovesReasoningOnly(t *testing.T) {
	t.Parallel()
	extra := func(id string) chat.Event { return chat.Event{Kind: chat.Extra, ID: id, Text: []byte(`"x"`)} }
	for _, row := range []struct {
		ev   chat.Event
		stay bool
	}{
		{chat.Event{Kind: chat.Thought, Text: []byte("hm")}, false},
		{chat.Event{Kind: chat.Signature, Text: []byte("c2ln")}, false},
		{chat.Event{Kind: chat.Redacted, Text: []byte("ZGF0YQ")}, false},
		{extra("reasoning_details"), false},
		{extra("reasoning"), false},
		{extra("reasoning_text"), false},
		{extra("encrypted_content"), false},
		{extra("logprobs"), true},
		{extra(chat.ServiceTier), true},
		{chat.Event{Kind: chat.Start, Model: "m"}, true},
		{chat.Event{Kind: chat.Text, Text: []byte("yes")}, true},
		{chat.Event{Kind: chat.Refusal, Text: []byte("no")}, true},
		{chat.Event{Kind: chat.ToolStart}, true},
		{chat.Event{Kind: chat.ToolArgs, Text: []byte("{}")}, true},
		{chat.Event{Kind: chat.BlockStop}, true},
		{chat.Event{Kind: chat.Stop}, true},
		{chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Reasoning: 7}}, true},
		{chat.Event{Kind: chat.Error}, true},
		{chat.Event{Kind: chat.End}, true},
		{chat.Event{Kind: chat.Other}, true},
	} {
		for _, raw := range []bool{false, true} {
			ev := row.ev
			if ev.Tail = !raw; raw {
				ev.Raw, ev.ModelSpan, ev.UsageChunk = []byte("data: thoughts and all\n\n"), chat.Span{Start: 1, End: 2}, true
			}
			if stay := Hide(&ev); stay != row.stay {
				t.Errorf("kind %d %q: goes on %v, want %v", ev.Kind, ev.ID, stay, row.stay)
			}
			if ev.Raw != nil || ev.Tail || ev.UsageChunk || ev.ModelSpan != (chat.Span{}) {
				t.Errorf("kind %d has the provider's bytes still: %+v", ev.Kind, ev)
			}
			if !bytes.Equal(ev.Text, row.ev.Text) || ev.ID != row.ev.ID || ev.Usage != row.ev.Usage {
				t.Errorf("kind %d was changed: %+v", ev.Kind, ev)
			}
		}
	}
}
