package openai

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
)

func TestK14ThinkingKeepsItsPosition(t *testing.T) {
	t.Parallel()
	text := func(s string) chat.Part { return chat.Part{Kind: chat.PartText, Text: s} }
	call := func(id string) chat.Part { return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id}} }
	thought := func(s string, text, calls int) placedPart {
		return placedPart{chat.Part{Kind: chat.PartThinking, Text: s, Signature: "c2ln"}, chatcompletion.Spot{Text: text, Calls: calls}}
	}
	googles := placedPart{chat.Part{Kind: chat.PartRedacted, Data: "google-gemini-v1#c2ln"}, chatcompletion.Spot{Text: 2, Calls: 0}}
	for _, r := range []struct {
		name     string
		thoughts []placedPart
		rest     []chat.Part
		want     string
	}{
		{"first", []placedPart{thought("A", 0, 0), thought("B", 0, 0)}, []chat.Part{text("hi"), call("1")}, "A B hi 1"},
		{"after the text", []placedPart{thought("A", 2, 0)}, []chat.Part{text("hi"), call("1")}, "hi A 1"},
		{"inside the text", []placedPart{thought("A", 0, 0), thought("B", 2, 0)}, []chat.Part{text("hiho")}, "A hi B ho"},
		{"between characters only", []placedPart{thought("A", 2, 0)}, []chat.Part{text("aé")}, "a A é"},
		{"between calls", []placedPart{thought("A", 0, 1), thought("B", 0, 2)}, []chat.Part{call("1"), call("2"), call("3")}, "1 A 2 B 3"},
		{"between text and calls that were both cut", []placedPart{thought("A", 9, 9)}, []chat.Part{text("hi"), call("1")}, "hi A 1"},
		{"alone", []placedPart{thought("A", 0, 0)}, nil, "A"},
		{"Claude's end no turn", []placedPart{thought("A", 2, 0)}, []chat.Part{text("hi")}, "A hi"},
		{"Google's sign the text before them", []placedPart{googles}, []chat.Part{text("hi")}, "hi google-gemini-v1#c2ln"},
		{"before a refusal", []placedPart{thought("A", 0, 0)}, []chat.Part{{Kind: chat.PartRefusal, Text: "no"}}, "A no"},
		{"a text in two parts", []placedPart{thought("A", 3, 0)}, []chat.Part{text("ab"), text("cd")}, "ab c A d"},
	} {
		var got []string
		for _, p := range interleave(r.thoughts, r.rest) {
			got = append(got, p.Text+p.Tool.ID+p.Data)
		}
		if s := strings.Join(got, " "); s != r.want {
			t.Errorf("%s: %q, want %q", r.name, s, r.want)
		}
	}
}

// FuzzInterleavedThinkingIsComplete: at whatever positions thoughts are, all of them and the rest are present, in order.
func FuzzInterleavedThinkingIsComplete(f *testing.F) {
	f.Add("hi 🦊", 3, 1, 9, 0)
	f.Add("é", 1, 0, 1, 0)
	f.Fuzz(func(t *testing.T, content string, text, calls, text2, calls2 int) {
		thoughts := []placedPart{
			{chat.Part{Kind: chat.PartThinking, Text: "\x01"}, chatcompletion.Spot{Text: text, Calls: calls}},
			{chat.Part{Kind: chat.PartThinking, Text: "\x02", Signature: "s"}, chatcompletion.Spot{Text: text2, Calls: calls2}},
		}
		rest := []chat.Part{{Kind: chat.PartText, Text: content}, {Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "1"}}, {Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "2"}}}
		var others, thought strings.Builder
		for _, p := range interleave(thoughts, rest) {
			if p.Kind == chat.PartThinking {
				thought.WriteString(p.Text)
			} else {
				others.WriteString(p.Text + p.Tool.ID)
			}
		}
		if thought.Len() != 2 || others.String() != fmt.Sprint(content, "12") {
			t.Errorf("%q and %q", thought.String(), others.String())
		}
	})
}
