package openai

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

func TestK14ThoughtsStandWhereTheyStood(t *testing.T) {
	t.Parallel()
	text := func(s string) chat.Part { return chat.Part{Kind: chat.PartText, Text: s} }
	call := func(id string) chat.Part { return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id}} }
	thought := func(s string, text, calls int) placed {
		return placed{chat.Part{Kind: chat.PartThinking, Text: s, Signature: "c2ln"}, spot{text, calls}}
	}
	googles := placed{chat.Part{Kind: chat.PartRedacted, Data: "google-gemini-v1#c2ln"}, spot{2, 0}}
	for _, r := range []struct {
		name     string
		thoughts []placed
		rest     []chat.Part
		want     string
	}{
		{"first", []placed{thought("A", 0, 0), thought("B", 0, 0)}, []chat.Part{text("hi"), call("1")}, "A B hi 1"},
		{"after the text", []placed{thought("A", 2, 0)}, []chat.Part{text("hi"), call("1")}, "hi A 1"},
		{"inside the text", []placed{thought("A", 0, 0), thought("B", 2, 0)}, []chat.Part{text("hiho")}, "A hi B ho"},
		{"between characters only", []placed{thought("A", 2, 0)}, []chat.Part{text("aé")}, "a A é"},
		{"between calls", []placed{thought("A", 0, 1), thought("B", 0, 2)}, []chat.Part{call("1"), call("2"), call("3")}, "1 A 2 B 3"},
		{"between text and calls that were both cut", []placed{thought("A", 9, 9)}, []chat.Part{text("hi"), call("1")}, "hi A 1"},
		{"alone", []placed{thought("A", 0, 0)}, nil, "A"},
		{"Claude's end no turn", []placed{thought("A", 2, 0)}, []chat.Part{text("hi")}, "A hi"},
		{"Google's sign the text before them", []placed{googles}, []chat.Part{text("hi")}, "hi google-gemini-v1#c2ln"},
		{"before a refusal", []placed{thought("A", 0, 0)}, []chat.Part{{Kind: chat.PartRefusal, Text: "no"}}, "A no"},
		{"a text in two parts", []placed{thought("A", 3, 0)}, []chat.Part{text("ab"), text("cd")}, "ab c A d"},
	} {
		var got []string
		for _, p := range weave(r.thoughts, r.rest) {
			got = append(got, p.Text+p.Tool.ID+p.Data)
		}
		if s := strings.Join(got, " "); s != r.want {
			t.Errorf("%s: %q, want %q", r.name, s, r.want)
		}
	}
}

func TestPlacesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, at := range []spot{{1, 0}, {0, 1}, {12, 3}} {
		id := strings.TrimPrefix(string(at.appendMember(nil)), `,"id":`)
		if got := readSpot(jsonx.Value{Raw: jsonx.Raw(id)}); got != at {
			t.Errorf("%s is read as %v, want %v", id, got, at)
		}
	}
	for _, id := range []string{`null`, `"rs_1"`, `"bardo-behind-"`, `"bardo-behind-1"`, `"bardo-behind--1-0"`, `"bardo-behind-x-0"`, `5`} {
		if got := readSpot(jsonx.Value{Raw: jsonx.Raw(id)}); got != (spot{}) {
			t.Errorf("%s is read as %v", id, got)
		}
	}
}

// FuzzWovenThoughtsLoseNothing: wherever thoughts say that they stand, all of them and all of the rest is there, in its order.
func FuzzWovenThoughtsLoseNothing(f *testing.F) {
	f.Add("hi 🦊", 3, 1, 9, 0)
	f.Add("é", 1, 0, 1, 0)
	f.Fuzz(func(t *testing.T, said string, text, calls, text2, calls2 int) {
		thoughts := []placed{
			{chat.Part{Kind: chat.PartThinking, Text: "\x01"}, spot{text, calls}},
			{chat.Part{Kind: chat.PartThinking, Text: "\x02", Signature: "s"}, spot{text2, calls2}},
		}
		rest := []chat.Part{{Kind: chat.PartText, Text: said}, {Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "1"}}, {Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "2"}}}
		var others, thought strings.Builder
		for _, p := range weave(thoughts, rest) {
			if p.Kind == chat.PartThinking {
				thought.WriteString(p.Text)
			} else {
				others.WriteString(p.Text + p.Tool.ID)
			}
		}
		if thought.Len() != 2 || others.String() != fmt.Sprint(said, "12") {
			t.Errorf("%q and %q", thought.String(), others.String())
		}
	})
}
