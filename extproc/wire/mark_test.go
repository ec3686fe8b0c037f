package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// TestMarksOfAConversation: a text is split at the boundary, the end is marked, and the conversation itself is unchanged.
func TestMarksOfAConversation(t *testing.T) {
	text := func(s string) chat.Part { return chat.Part{Kind: chat.PartText, Text: s} }
	marked := func(p chat.Part) chat.Part {
		p.CacheControl = jsonx.Raw(wire.Ephemeral)
		return p
	}
	user := func(parts ...chat.Part) chat.Message { return chat.Message{Role: chat.RoleUser, Parts: parts} }
	for _, row := range []struct {
		about    string
		plan     *chat.CachePlan
		least    int
		system   []chat.Part
		messages []chat.Message
		want     []chat.Part
		end      []chat.Part // of the last message
	}{
		{"no plan", nil, 0, []chat.Part{text("a")}, []chat.Message{user(text("x"))}, []chat.Part{text("a")}, []chat.Part{text("x")}},
		{
			"all of it", &chat.CachePlan{System: chat.WholePrompt, End: true}, 0,
			[]chat.Part{text("a"), text("b")},
			[]chat.Message{user(text("x"), text("y"))},
			[]chat.Part{text("a"), marked(text("b"))},
			[]chat.Part{text("x"), marked(text("y"))},
		},
		{"a part of a text", &chat.CachePlan{System: 3}, 0, []chat.Part{text("a"), text("b\nc")}, nil, []chat.Part{text("a"), marked(text("b\n")), text("c")}, nil},
		{
			"K-24 the client's mark in the text at the boundary", &chat.CachePlan{System: 3}, 0,
			[]chat.Part{text("a"), marked(text("b\nc"))},
			nil,
			[]chat.Part{marked(text("a")), marked(text("b\nc"))},
			nil,
		},
		{"D-35 too short", &chat.CachePlan{System: 3}, 1024, []chat.Part{text(strings.Repeat("a", 2000) + "\n")}, nil, []chat.Part{text(strings.Repeat("a", 2000) + "\n")}, nil},
		{
			"K-24 four marks", &chat.CachePlan{System: chat.WholePrompt, End: true}, 0,
			[]chat.Part{text("a")},
			[]chat.Message{user(marked(text("1")), marked(text("2")), marked(text("3")), text("4"))},
			[]chat.Part{marked(text("a"))},
			[]chat.Part{marked(text("1")), marked(text("2")), marked(text("3")), text("4")},
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			c := &chat.Conversation{System: row.system, Messages: row.messages}
			for range 2 {
				got := wire.Mark(c, row.plan, row.least)
				if !reflect.DeepEqual(got.System, row.want) {
					t.Errorf("system is %+v, want %+v", got.System, row.want)
				}
				if n := len(got.Messages); n > 0 && !reflect.DeepEqual(got.Messages[n-1].Parts, row.end) {
					t.Errorf("the end is %+v, want %+v", got.Messages[n-1].Parts, row.end)
				}
			}
		})
	}
}

// TestK24AtMostFourMarksAreSent: those that cover the most, and those that the next request continues.
func TestK24AtMostFourMarksAreSent(t *testing.T) {
	part := func(s string) chat.Part { // an upper-case letter is marked
		p := chat.Part{Kind: chat.PartText, Text: s}
		if s < "a" {
			p.CacheControl = jsonx.Raw(wire.Ephemeral)
		}
		return p
	}
	for _, row := range []struct{ tools, system, messages, want string }{
		{"", "", "ABCD", "ABCD"},
		{"", "", "ABCDEaF", "abCDEaF"},
		{"AB", "CD", "EFGH", "aBcDefGH"},
		{"ABC", "DEF", "", "abCdeF"},
		{"A", "B", "CDEF", "ABcdEF"},
		{"a", "AB", "CDEF", "aaBcDEF"},
		{"ABCDE", "", "", "abcdE"},
	} {
		c := &chat.Conversation{}
		for i := range row.tools {
			c.Tools = append(c.Tools, chat.Tool{Name: row.tools[i : i+1], CacheControl: part(row.tools[i : i+1]).CacheControl})
		}
		for i := range row.system {
			c.System = append(c.System, part(row.system[i:i+1]))
		}
		for i := range row.messages {
			c.Messages = append(c.Messages, chat.Message{Parts: []chat.Part{{Kind: chat.PartToolResult, Parts: []chat.Part{part(row.messages[i : i+1])}}}})
		}
		letters := func(c *chat.Conversation) (s string) {
			say := func(name string, mark jsonx.Raw) {
				if mark == nil {
					name = strings.ToLower(name)
				}
				s += name
			}
			for _, t := range c.Tools {
				say(t.Name, t.CacheControl)
			}
			for _, p := range c.System {
				say(p.Text, p.CacheControl)
			}
			for _, m := range c.Messages {
				say(m.Parts[0].Parts[0].Text, m.Parts[0].Parts[0].CacheControl)
			}
			return s
		}
		before := letters(c)
		got, cut := wire.LimitMarks(c)
		if letters(got) != row.want || cut != (row.want != before) || letters(c) != before {
			t.Errorf("%s became %s, %v, want %s", before, letters(got), cut, row.want)
		}
	}
}

func TestD03UnknownFlagsAreRefusedByName(t *testing.T) {
	for body, want := range map[string]string{
		`{"system":[{"bardo":"static"},{"bardo":"stable"}]}`:                             "system[1].bardo",
		`{"messages":[{"role":"user","bardo":1}]}`:                                       "messages[0].bardo",
		`{"messages":[{},{"content":[{"bardo":"volatile"},{"bardo":null}]}]}`:            "messages[1].content[1].bardo",
		`{"input":[{"content":[{"bardo":{}}]}]}`:                                         "input[0].content[0].bardo",
		`{"systemInstruction":{"parts":[{"bardo":"x"}]}}`:                                "systemInstruction.parts[0].bardo",
		`{"contents":[{"parts":[{"bardo":"static"},{"bardo":"x"},{"bardo":"static"}]}]}`: "contents[0].parts[1].bardo",
		`{"messages":[{"content":[{"content":[{"bardo":""}]}]}]}`:                        "messages[0].content[0].bardo",
		`{"tools":[{"bardo":1}],"bardo":{},"system":[{"bardo":"static"}]}`:               "",
	} {
		doc, err := jsonx.Scan([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r := &chat.Request{Doc: doc}
		err = wire.RemoveHints(r)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want+` must be "static" or "volatile"`)) {
			t.Errorf("%s: %v", body, err)
		}
		if out := r.Edit.AppendTo(nil, &r.Doc); strings.Contains(string(out), "bardo") {
			t.Errorf("%s became %s", body, out)
		}
	}
}

func TestTextAtAnOffset(t *testing.T) {
	for _, row := range []struct {
		raw   string
		n, at int
	}{{`"abc"`, 0, 1}, {`"abc"`, 2, 3}, {`"abc"`, 9, 4}, {`"a\nb"`, 2, 4}, {`"\u00e9b"`, 2, 7}, {`"\ud83d\ude00b"`, 4, 13}, {`"\ud83d\ude00b"`, 3, 1}, {`"\ud83db"`, 3, 7}} {
		if got := (jsonx.Value{Raw: jsonx.Raw(row.raw), At: 0}).TextAt(row.n); got != row.at {
			t.Errorf("%s after %d: %d, want %d", row.raw, row.n, got, row.at)
		}
	}
}
