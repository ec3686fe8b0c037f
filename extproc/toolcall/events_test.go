package toolcall_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/toolcall"
)

const nowCall = `<tool_call>{"name":"now"}</tool_call>`

// seen records the kinds of events in order, and their choices and blocks.
type seen struct {
	kind          chat.EventKind
	index, choice int
	text          string
}

func readAll(r *toolcall.Reader, evs ...chat.Event) (out []seen) {
	for i := range evs {
		for _, e := range r.Read(&evs[i]) {
			out = append(out, seen{e.Kind, e.Index, e.Choice, string(e.Text)})
		}
	}
	return out
}

func text(index, choice int, s string) chat.Event {
	return chat.Event{Kind: chat.Text, Index: index, Choice: choice, Text: []byte(s)}
}

func TestBlocksAreRenumbered(t *testing.T) {
	for _, row := range []struct {
		about string
		in    []chat.Event
		want  []seen
	}{
		{
			"a thought, words around a call, and a call of the provider's own",
			[]chat.Event{
				{Kind: chat.Thought, Index: 0, Text: []byte("hm")},
				{Kind: chat.BlockStop, Index: 0},
				text(1, 0, "a "+nowCall+" b"),
				{Kind: chat.BlockStop, Index: 1},
				{Kind: chat.ToolStart, Index: 2, Tool: chat.ToolCall{ID: "x", Name: "now"}},
				{Kind: chat.ToolArgs, Index: 2, Text: []byte("{}")},
				{Kind: chat.BlockStop, Index: 2},
			},
			[]seen{
				{chat.Thought, 0, 0, "hm"},
				{chat.BlockStop, 0, 0, ""},
				{chat.Text, 1, 0, "a "},
				{chat.BlockStop, 1, 0, ""},
				{chat.ToolStart, 2, 0, ""},
				{chat.BlockStop, 2, 0, ""},
				{chat.Text, 3, 0, " b"},
				{chat.BlockStop, 3, 0, ""},
				{chat.ToolStart, 4, 0, ""},
				{chat.ToolArgs, 4, 0, "{}"},
				{chat.BlockStop, 4, 0, ""},
			},
		},
		{
			"two choices at once",
			[]chat.Event{text(0, 0, "<tool_"), text(1, 1, "hi"), text(0, 0, `call>{"name":"now"}</tool_call>`), {Kind: chat.BlockStop, Index: 0}, {Kind: chat.BlockStop, Index: 1, Choice: 1}},
			[]seen{{chat.Text, 0, 1, "hi"}, {chat.ToolStart, 1, 0, ""}, {chat.BlockStop, 1, 0, ""}, {chat.BlockStop, 0, 1, ""}},
		},
		{
			"a block that another follows without its end",
			[]chat.Event{text(0, 0, "a <tool"), text(1, 0, "b"), {Kind: chat.Thought, Index: 2, Text: []byte("hm")}},
			[]seen{{chat.Text, 0, 0, "a "}, {chat.Text, 0, 0, "<tool"}, {chat.BlockStop, 0, 0, ""}, {chat.Text, 1, 0, "b"}, {chat.BlockStop, 1, 0, ""}, {chat.Thought, 2, 0, "hm"}},
		},
		{
			"K-77 what is held back when the stream breaks is told before it",
			[]chat.Event{text(0, 0, `a <tool_call>{"na`), {Kind: chat.Error}},
			[]seen{{chat.Text, 0, 0, "a "}, {chat.Text, 0, 0, "<tool_call>"}, {chat.Text, 0, 0, `{"na`}, {chat.BlockStop, 0, 0, ""}, {chat.Error, 0, 0, ""}},
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			got := readAll(toolcall.NewReader(toolcall.Hermes, offered, "c"), row.in...)
			if len(got) != len(row.want) {
				t.Fatalf("got\n%v\nwant\n%v", got, row.want)
			}
			for i := range got {
				if got[i] != row.want[i] {
					t.Errorf("event %d is %v, want %v", i, got[i], row.want[i])
				}
			}
		})
	}
}

func TestK09StopReasons(t *testing.T) {
	for _, row := range []struct {
		about, text  string
		reason, want chat.StopReason
	}{
		{"a turn with a call stops for it", nowCall, chat.StopEnd, chat.StopTool},
		{"though a stop sequence matched", nowCall, chat.StopSequence, chat.StopTool},
		{"but not when it was cut off", nowCall, chat.StopLength, chat.StopLength},
		{"a turn without one ends", "hi", chat.StopEnd, chat.StopEnd},
	} {
		t.Run(row.about, func(t *testing.T) {
			r := toolcall.NewReader(toolcall.Hermes, offered, "c")
			r.Read(&chat.Event{Kind: chat.Text, Text: []byte(row.text)})
			evs := r.Read(&chat.Event{Kind: chat.Stop, Reason: row.reason, Text: []byte("END")})
			last := evs[len(evs)-1]
			if last.Kind != chat.Stop || last.Reason != row.want || (last.Text == nil) != (row.want == chat.StopTool) {
				t.Errorf("it stops with %+v", last)
			}
		})
	}
}

func TestCallsAreForwardedWithoutTheProvidersBytes(t *testing.T) {
	r := toolcall.NewReader(toolcall.Hermes, offered, "c")
	for _, ev := range []chat.Event{
		{Kind: chat.Start, ID: "m", Model: "x", Raw: []byte("data: {}\n\n"), ModelSpan: chat.Span{Start: 1, End: 2}},
		{Kind: chat.UsageInfo, Usage: chat.Usage{Output: 3}, Tail: true, UsageChunk: true},
		{Kind: chat.Extra, ID: "logprobs", Text: []byte("{}"), Raw: []byte("x")},
		{Kind: chat.End, Raw: []byte("data: [DONE]\n\n")},
	} {
		got := r.Read(&ev)
		if len(got) != 1 || got[0].Kind != ev.Kind || got[0].Raw != nil || got[0].Tail || got[0].UsageChunk || got[0].ModelSpan != (chat.Span{}) || got[0].ID != ev.ID || got[0].Usage != ev.Usage {
			t.Errorf("%+v became %+v", ev, got)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	for _, row := range []struct {
		name string
		f    toolcall.Format
		text string
	}{
		{"hermes, a word", toolcall.Hermes, " word"},
		{"qwen, a word with a tag", toolcall.Qwen, " <b>word"},
		{"json, a word", toolcall.JSON, " word"},
	} {
		b.Run(row.name, func(b *testing.B) {
			r := toolcall.NewReader(row.f, offered, "c")
			ev := chat.Event{Kind: chat.Text, Text: []byte("so")}
			r.Read(&ev)
			ev.Text = []byte(row.text)
			b.SetBytes(int64(len(row.text)))
			b.ReportAllocs()
			for b.Loop() {
				if got := r.Read(&ev); len(got) == 0 {
					b.Fatal("the word is held back")
				}
			}
		})
	}
	b.Run("a call of 20 events", func(b *testing.B) {
		call := []byte(`<tool_call>{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}</tool_call>`)
		b.ReportAllocs()
		for b.Loop() {
			r := toolcall.NewReader(toolcall.Hermes, offered, "c")
			for i := 0; i < len(call); i += 4 {
				r.Read(&chat.Event{Kind: chat.Text, Text: call[i:min(i+4, len(call))]})
			}
		}
	})
}

func TestTextAllocatesNothing(t *testing.T) {
	for _, f := range []toolcall.Format{toolcall.Hermes, toolcall.Qwen, toolcall.JSON} {
		r := toolcall.NewReader(f, offered, "c")
		ev := chat.Event{Kind: chat.Text, Text: []byte("one <b> or \n` more words")}
		for range 2 { // a tag at the end of a piece is held back in a buffer that is reused
			r.Read(&ev)
		}
		if n := testing.AllocsPerRun(100, func() { r.Read(&ev) }); n > 0 {
			t.Errorf("%s: %v allocations for each piece of text", f, n)
		}
	}
}
