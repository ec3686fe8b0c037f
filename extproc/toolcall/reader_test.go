package toolcall_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/toolcall"
)

// offered are the tools of most tests.
var offered = []chat.Tool{
	{Name: "weather", Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"opts":{"type":"object"},"on":{"type":["boolean","null"]},"tags":{"anyOf":[{"type":"array"},{"type":"string"}]}}}`)},
	{Name: "now"},
}

// feed feeds a text to a reader in pieces of n bytes, as one block, and formats the result: text as it is, calls in ⟦⟧.
func feed(t testing.TB, f toolcall.Format, text string, n int) (out string, reason chat.StopReason) {
	t.Helper()
	r := toolcall.NewReader(f, offered, "call_x_")
	var w watcher
	for i := 0; i < len(text); i += n {
		piece := []byte(text[i:min(i+n, len(text))])
		w.take(t, r.Read(&chat.Event{Kind: chat.Text, Index: 0, Text: piece}))
		clear(piece) // decoders reuse their buffers
	}
	w.take(t, r.Read(&chat.Event{Kind: chat.BlockStop, Index: 0}))
	w.take(t, r.Read(&chat.Event{Kind: chat.Stop, Reason: chat.StopEnd}))
	w.take(t, r.Read(&chat.Event{Kind: chat.End}))
	if w.open != 0 {
		t.Errorf("%d blocks stay open", w.open)
	}
	return w.out.String(), w.reason
}

// watcher checks the order of events: each block starts, continues and ends once.
type watcher struct {
	out    strings.Builder
	open   int
	state  map[int]chat.EventKind // state of each block: its kind, BlockStop once it ended
	ids    map[string]bool
	reason chat.StopReason
	tool   string
	args   string
}

func (w *watcher) take(t testing.TB, evs []chat.Event) {
	t.Helper()
	if w.state == nil {
		w.state, w.ids = map[int]chat.EventKind{}, map[string]bool{}
	}
	for i := range evs {
		ev := &evs[i]
		was, known := w.state[ev.Index]
		switch ev.Kind {
		case chat.Text:
			if len(ev.Text) == 0 || known && was != chat.Text {
				t.Errorf("text %q in block %d of %v", ev.Text, ev.Index, was)
			}
			if !known {
				w.open++
			}
			w.state[ev.Index] = chat.Text
			w.out.Write(ev.Text)
		case chat.ToolStart:
			if known || ev.Tool.ID == "" || w.ids[ev.Tool.ID] {
				t.Errorf("call %q begins in block %d again", ev.Tool.ID, ev.Index)
			}
			w.open++
			w.ids[ev.Tool.ID], w.state[ev.Index] = true, chat.ToolStart
			w.tool, w.args = ev.Tool.Name, "{}"
		case chat.ToolArgs:
			if was != chat.ToolStart || !json.Valid(ev.Text) {
				t.Errorf("arguments %q in block %d of %v", ev.Text, ev.Index, was)
			}
			w.args = string(ev.Text)
		case chat.BlockStop:
			if !known || was == chat.BlockStop {
				t.Errorf("block %d ends, which was %v", ev.Index, was)
			}
			if was == chat.ToolStart {
				fmt.Fprintf(&w.out, "⟦%s %s⟧", w.tool, w.args)
			}
			w.open--
			w.state[ev.Index] = chat.BlockStop
		case chat.Stop:
			w.reason = ev.Reason
		default:
		}
	}
}

func TestK77TagsInText(t *testing.T) {
	for _, row := range []struct{ about, text, want string }{
		{"K-77 a call alone", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>", `⟦weather {"city": "Oslo"}⟧`},
		{"K-77 text around it", "Let me look.\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\nDone.", "Let me look.\n⟦now {}⟧\nDone."},
		{"K-77 several", "<tool_call>{\"name\":\"now\"}</tool_call>\n<tool_call>{\"name\":\"weather\",\"arguments\":{\"days\":3}}</tool_call>\n", `⟦now {}⟧⟦weather {"days":3}⟧`},
		{"K-77 unclosed at the end", `<tool_call>{"name":"now","arguments":{}}`, "⟦now {}⟧"},
		{"K-77 unclosed before the next", `<tool_call>{"name":"now"} <tool_call>{"name":"now"}`, "⟦now {}⟧⟦now {}⟧"},
		{"K-77 cut off", `<tool_call>{"name":"weather","arguments":{"city":"Os`, `<tool_call>{"name":"weather","arguments":{"city":"Os`},
		{"K-77 one cut off, and one that is whole", `<tool_call>{"name":"weather <tool_call>{"name":"now"}</tool_call>`, `<tool_call>{"name":"weather ⟦now {}⟧`},
		{"K-77 braces in strings", `<tool_call>{"name":"weather","arguments":{"city":"}{\"}{"}}</tool_call>`, `⟦weather {"city":"}{\"}{"}⟧`},
		{"K-77 tags in strings", `<tool_call>{"name":"weather","arguments":{"city":"</tool_call><tool_call>"}}</tool_call>!`, `⟦weather {"city":"</tool_call><tool_call>"}⟧!`},
		{"K-77 empty arguments", `<tool_call>{"name":"now","arguments":""}</tool_call>`, "⟦now {}⟧"},
		{"K-77 no arguments", `<tool_call>{"name":"now","arguments":null}</tool_call>`, "⟦now {}⟧"},
		{"arguments as a text", `<tool_call>{"name":"weather","arguments":"{\"days\": 2}"}</tool_call>`, `⟦weather {"days": 2}⟧`},
		{"parameters instead of arguments", `<tool_call>{"name":"weather","parameters":{"days":2}}</tool_call>`, `⟦weather {"days":2}⟧`},
		{"arguments before the name", `<tool_call>{"arguments":{"days":2},"name":"weather"}</tool_call>`, `⟦weather {"days":2}⟧`},
		{"line breaks in strings", "<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"a\nb\"}}</tool_call>", `⟦weather {"city":"a\nb"}⟧`},
		{"a tool that was not offered", `<tool_call>{"name":"rm","arguments":{}}</tool_call> ok`, `<tool_call>{"name":"rm","arguments":{}}</tool_call> ok`},
		{"arguments that are no object", `<tool_call>{"name":"now","arguments":[1]}</tool_call>`, `<tool_call>{"name":"now","arguments":[1]}</tool_call>`},
		{"no JSON", `<tool_call>{name: now}</tool_call> ok`, `<tool_call>{name: now}</tool_call> ok`},
		{"a missing brace, then a call", `<tool_call>{"name":"now"</tool_call><tool_call>{"name":"now"}</tool_call>`, `<tool_call>{"name":"now"</tool_call>⟦now {}⟧`},
		{"a tag in prose", "The <tool_call> tag is <b>bold</b>.", "The <tool_call> tag is <b>bold</b>."},
		{"half a tag at the end", "a <tool_c", "a <tool_c"},
		{"white space alone", " \n ", " \n "},
		{"white space before and after words", " \nhi\n ", " \nhi\n "},
		{"nothing", "", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			for _, f := range []toolcall.Format{toolcall.Hermes, toolcall.Qwen} {
				everyCut(t, f, row.text, row.want)
			}
		})
	}
}

// everyCut feeds a text in pieces of every size.
func everyCut(t *testing.T, f toolcall.Format, text, want string) {
	t.Helper()
	for n := 1; n <= max(1, len(text)); n++ {
		got, reason := feed(t, f, text, n)
		if got != want {
			t.Fatalf("%s, in pieces of %d:\ngot  %q\nwant %q", f, n, got, want)
		}
		if called := strings.Contains(want, "⟦"); called != (reason == chat.StopTool) {
			t.Errorf("%s: the answer ends with %q", f, reason)
		}
	}
}

func TestQwensOwnTags(t *testing.T) {
	for _, row := range []struct{ about, text, want string }{
		{"a function", "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", `⟦weather {"city":"Oslo","days":3}⟧`},
		{"K-77 without parameters", "<tool_call><function=now></function></tool_call>", "⟦now {}⟧"},
		{"without the tags around it", "ok\n<function=now>\n</function>\nbye", "ok\n⟦now {}⟧\nbye"},
		{"K-77 unclosed", "<tool_call><function=now>\n</function>", "⟦now {}⟧"},
		{"the function's end is missing", "<tool_call><function=weather><parameter=city>a</parameter></tool_call>", `⟦weather {"city":"a"}⟧`},
		{"K-77 cut off in a value", "<tool_call><function=weather><parameter=city>a", "<tool_call><function=weather><parameter=city>a"},
		{"values keep lines, tags and quotes", "<function=weather><parameter=city>\n<b>\"a\"\n}</function>\n\n</parameter></function>", `⟦weather {"city":"<b>\"a\"\n}</function>\n"}⟧`},
		{"values of every kind", "<function=weather><parameter=opts>{\"a\": 1}</parameter><parameter=on>null</parameter><parameter=tags>[1]</parameter><parameter=other>7</parameter></function>", `⟦weather {"opts":{"a": 1},"on":null,"tags":"[1]","other":"7"}⟧`},
		{"a text that looks like a number", "<function=weather><parameter=city>42</parameter></function>", `⟦weather {"city":"42"}⟧`},
		{"a number that is none", "<function=weather><parameter=days>many</parameter></function>", `⟦weather {"days":"many"}⟧`},
		{"a function that was not offered", "<tool_call><function=rm></function></tool_call>", "<tool_call><function=rm></function></tool_call>"},
		{"a parameter twice", "<function=weather><parameter=city>a</parameter><parameter=city>b</parameter></function>", "<function=weather><parameter=city>a</parameter><parameter=city>b</parameter></function>"},
		{"words in a function", "<function=now>words</function>", "<function=now>words</function>"},
	} {
		t.Run(row.about, func(t *testing.T) { everyCut(t, toolcall.Qwen, row.text, row.want) })
	}
}

func TestK77PlainJSON(t *testing.T) {
	const call, called = `{"name":"weather","arguments":{"city":"Oslo"}}`, `⟦weather {"city":"Oslo"}⟧`
	for _, row := range []struct{ about, text, want string }{
		{"a whole answer", call, called},
		{"white space around it", "\n " + call + " \n", called},
		{"an array", "[" + call + `, {"name": "now", "parameters": {}}]`, called + "⟦now {}⟧"},
		{"one after the other", call + "\n" + call, called + called},
		{"a fenced block", "```json\n" + call + "\n```", called},
		{"a block without a name, between words", "So:\n```\n[" + call + "]\n```\nThere.", "So:\n" + called + "\nThere."},
		{"K-77 a block that is not closed", "```json\n" + call, called},
		{"two blocks", "```\n" + call + "\n```\n\n```\n" + call + "\n```\n", called + called},
		{"K-77 braces, fences and tags in strings", `{"name":"weather","arguments":{"city":"}]` + "```" + `<"}}`, `⟦weather {"city":"}]` + "```" + `<"}⟧`},
		{"K-77 empty arguments", `{"name":"now","arguments":{}}`, "⟦now {}⟧"},
		{"an object that is only part of the answer", call + " is the call", call + " is the call"},
		{"an object behind words", "ok " + call, "ok " + call},
		{"an object that is no call", `{"name":"now"}`, `{"name":"now"}`},
		{"an array that is not all calls", "[" + call + ", 1]", "[" + call + ", 1]"},
		{"an empty array", "[]", "[]"},
		{"a tool that was not offered", `{"name":"rm","arguments":{}}`, `{"name":"rm","arguments":{}}`},
		{"K-77 cut off", `{"name":"now","argum`, `{"name":"now","argum`},
		{"code that is no call, and then one", "```go\nx := map[string]int{}\n```\n```json\n" + call + "\n```", "```go\nx := map[string]int{}\n```\n" + called},
		{"a call in a block with more", "```json\n" + call + "\n// no\n```\nend", "```json\n" + call + "\n// no\n```\nend"},
		{"a fence inside a block that is no call", "```md\n{\n```\n" + call, "```md\n{\n```\n" + call},
		{"code within a line", "```x``` is code\n```\n" + call + "\n```", "```x``` is code\n" + called},
		{"backticks in a line", "a ``` b ` c", "a ``` b ` c"},
		{"half a fence", "a\n``", "a\n``"},
		{"a fence and no more", "```json", "```json"},
		{"white space alone", " \n", " \n"},
	} {
		t.Run(row.about, func(t *testing.T) { everyCut(t, toolcall.JSON, row.text, row.want) })
	}
}
