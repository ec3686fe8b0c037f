package toolcall

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

var fuzzed = toolsByName([]chat.Tool{{Name: "now"}, {Name: "a", Schema: []byte(`{"properties":{"b":{"type":"integer"}}}`)}})

// split feeds a text to a splitter in pieces whose sizes are the cuts, and formats the result: text as it is, calls in ⟦⟧. The parts must
// be the text.
func split(t testing.TB, f Format, text, cuts []byte, held int) string {
	t.Helper()
	limits := usage{heldLimit: held}
	s := splitter{find: newFinder(f, fuzzed, &limits)}
	var out strings.Builder
	var all []byte
	drain := func(end bool) {
		for {
			v, part, found := s.next(end)
			if v == undecided {
				return
			}
			all = append(all, part...)
			if v == plainText {
				out.Write(part)
				continue
			}
			fmt.Fprintf(&out, "⟦%v⟧", found)
		}
	}
	for rest, i := text, 0; len(rest) > 0; i++ {
		n := len(rest)
		if len(cuts) > 0 {
			n = min(n, 1+int(cuts[i%len(cuts)]))
		}
		s.feed(rest[:n])
		drain(false)
		rest = rest[n:]
		if limit := limits.maxHeld(); len(s.held) > limit+n {
			t.Fatalf("%d bytes are held back, at most %d may be", len(s.held), limit)
		}
	}
	s.feed(nil)
	drain(true)
	if !bytes.Equal(all, text) {
		t.Fatalf("%s: the parts are\n%q\nthe text is\n%q", f, all, text)
	}
	return out.String()
}

func FuzzK77WhereTextIsCutChangesNothing(f *testing.F) {
	for _, text := range []string{
		`a <tool_call>{"name":"now","arguments":{"x":"}</tool_call>"}}</tool_call> b`, "<tool_call>\n<function=a>\n<parameter=b>\n1\n</parameter>\n</function>\n</tool_call>",
		"<function=now></function>", `[{"name":"a","arguments":{}}]`, "x\n```json\n{\"name\":\"now\",\"arguments\":{}}\n```\n", "```\n```\n```x\n{", `{"name":"now","parameters":"{}"} {"name":"a","arguments":{}}`,
		"  <tool_call> {\"name\": \"now\"} \n <tool_call>", "``` ` \n```\n[]\n```", `<tool_call>{"<tool_call>{"name":"now"}`,
	} {
		f.Add([]byte(text), []byte{0}, uint8(0))
		f.Add([]byte(text), []byte{2, 0, 6}, uint8(20))
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte, least uint8) {
		held := 64 + int(least)
		for _, format := range []Format{Hermes, Qwen, JSON} {
			whole := split(t, format, text, nil, held)
			if got := split(t, format, text, slices.Concat(cuts, []byte{0}), held); got != whole {
				t.Errorf("%s, in pieces of %v and at most %d held back:\n%q\nas a whole:\n%q", format, cuts, held, got, whole)
			}
			if got := split(t, format, text, []byte{0}, held); got != whole {
				t.Errorf("%s, byte by byte and at most %d held back:\n%q\nas a whole:\n%q", format, held, got, whole)
			}
		}
	})
}

func TestK77AnUnfinishedCallIsText(t *testing.T) {
	for _, row := range []struct {
		about string
		f     Format
		piece string
		first string
	}{
		{"one call without end", Hermes, "x", `<tool_call>{"name":"`},
		{"a value without end", Qwen, "x", `<function=a><parameter=b>`},
		{"white space without end", Hermes, " ", ""},
		{"white space in a call", Qwen, " ", "<tool_call>"},
		{"calls in calls", Hermes, `<tool_call>{\"`, `<tool_call>{"`},
		{"a value of plain JSON", JSON, "x", `["`},
		{"blocks in blocks", JSON, "```\n{\\\"\n", "```\n{\"\n"},
		{"brackets", JSON, "[", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			text := []byte(row.first + strings.Repeat(row.piece, 3*maxHeld/len(row.piece)))
			if got := split(t, row.f, text, []byte{255}, 0); got != string(text) {
				t.Errorf("%d bytes became %d", len(text), len(got))
			}
		})
	}
}

func TestCallsBeyondTheLimitAreText(t *testing.T) {
	const call = `<tool_call>{"name":"now"}</tool_call>`
	got := split(t, Hermes, []byte(strings.Repeat(call, maxCalls+1)), nil, 0)
	if n := strings.Count(got, "⟦"); n != maxCalls || !strings.HasSuffix(got, call) {
		t.Errorf("%d calls, and then %q", n, got[len(got)-len(call):])
	}
}
