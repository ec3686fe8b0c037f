package reasoning_test

import (
	"bytes"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
)

type blocksCase struct {
	about  string
	answer answer
	want   string
}

func TestD41ReasoningHasItsOwnBlocks(t *testing.T) {
	const call = `"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"now","arguments":"{}"}}]`
	implicit, two := usual(), usual()
	implicit.Implicit, two.Choices = true, 2
	for _, row := range []blocksCase{
		{"words alone", answerOf(content("Hi"), content(" there")), "text 0 \"Hi\"\ntext 0 \" there\"\nclose 0\nstop end"},
		{
			"K-75 a block, word by word", answerOf(content("<th"), content("ink>"), content("hm"), content(", so"), content("</think>"), content("\n\n"), content("Hi")),
			"thought 0 \"hm\"\nthought 0 \", so\"\nclose 0\ntext 1 \"\\n\\n\"\ntext 1 \"Hi\"\nclose 1\nstop end",
		},
		{"nothing in it", answerOf(content("<think>\n\n</think>\n\nHi")), "text 0 \"\\n\\nHi\"\nclose 0\nstop end"},
		{"no end", answerOf(content("<think>hm")), "thought 0 \"hm\"\nclose 0\nstop end"},
		{
			"white space, then a call of a tool", answerOf(content("<think>hm</think>\n\n"), delta(call)),
			"thought 0 \"hm\"\nclose 0\ntool 1 now\nargs 1 {}\nclose 1\nstop tool",
		},
		{
			"K-06 a field tells thoughts: its words are words", answerOf(delta(`"reasoning_content":"hm"`), content("<think>is a tag</think>")),
			"thought 0 \"hm\"\nclose 0\ntext 1 \"<think>is a tag</think>\"\nclose 1\nstop end",
		},
		{
			"an empty field tells none", answerOf(delta(`"reasoning_content":"","content":"<think>hm</think>Hi"`)),
			"thought 0 \"hm\"\nclose 0\ntext 1 \"Hi\"\nclose 1\nstop end",
		},
		{
			"behind a call of a tool", answerOf(delta(call), content("<think>hm"), content("</think>Hi")),
			"tool 0 now\nargs 0 {}\nthought 1 \"hm\"\nclose 1\ntext 2 \"Hi\"\nclose 2\nclose 0\nstop tool",
		},
		{
			"behind words and a call", answerOf(content("So: "), delta(call), content("<think>hm"), content("</think>Hi")),
			"text 0 \"So: \"\nclose 0\ntool 1 now\nargs 1 {}\nthought 2 \"hm\"\nclose 2\ntext 3 \"Hi\"\nclose 3\nclose 1\nstop tool",
		},
		{"the prompt opened it", with(implicit, content("hm"), content("</think>Hi")), "thought 0 \"hm\"\nclose 0\ntext 1 \"Hi\"\nclose 1\nstop end"},
		{"but a field tells it", with(implicit, delta(`"reasoning":"hm"`), content("Hi")), "thought 0 \"hm\"\nclose 0\ntext 1 \"Hi\"\nclose 1\nstop end"},
		{
			"two choices", with(two, content("<think>a"), chunk(1, `"delta":{"content":"Hi <think>"}`), content("</think>b"), chunk(1, `"delta":{},"finish_reason":"stop"`)),
			"thought 0 \"a\"\ntext 1/1 \"Hi <think>\"\nclose 0\ntext 2 \"b\"\nclose 1/1\nstop end\nclose 2\nstop end",
		},
		{
			"D-42 what is not counted is estimated", answerOf(content("<think>twelve bytes</think>Hi"), `{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}`),
			"thought 0 \"twelve bytes\"\nclose 0\ntext 1 \"Hi\"\nusage 3 in, 9 out, 3 reasoning (true)\nclose 1\nstop end",
		},
		{
			"what is counted is not", answerOf(content("<think>twelve bytes</think>Hi"), `{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":5}}}`),
			"thought 0 \"twelve bytes\"\nclose 0\ntext 1 \"Hi\"\nusage 3 in, 9 out, 5 reasoning (false)\nclose 1\nstop end",
		},
		{
			"broken off",
			answer{format: chat.OpenAI, stream: true, options: usual(), body: sse(content("<think>hm"), content("</thi"))},
			"thought 0 \"hm\"\nthought 0 \"</thi\"\nclose 0\nerror truncated",
		},
		{
			"in one piece",
			answer{format: chat.OpenAI, options: usual(), body: []byte(`{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"<think>hm</think>Hi"},"finish_reason":"stop"}]}`)},
			"thought 0 \"hm\"\nclose 0\ntext 1 \"Hi\"\nclose 1\nstop end",
		},
	} {
		t.Run(row.about, func(t *testing.T) { mustRead(t, row.answer, row.want) })
	}
}

// with returns a stream that is read with the given options.
func with(o reasoning.Options, chunks ...string) answer {
	a := answerOf(chunks...)
	a.options = o
	return a
}

// TestAnAnswerWithoutTagsIsForwardedUnchanged: a client of the same dialect gets the provider's bytes.
func TestAnAnswerWithoutTagsIsForwardedUnchanged(t *testing.T) {
	several := usual()
	several.Choices = 2
	const call = `"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"now","arguments":"{}"}}]`
	whole := `{"x": 1,"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi <think>"},"finish_reason":"stop"},{"index":1,"message":{"content":" \n"},"finish_reason":"stop"}]}`
	for _, row := range []struct {
		about  string
		answer answer
	}{
		{"words", answerOf(content("Hi"), content(" <think> there"))},
		{"white space first", answerOf(content(" "), content("\n"), content("Hi"))},
		{"half a tag first", answerOf(content("<"), content("th"), content("is"))},
		{"white space alone", answerOf(content(" "), content("\n"))},
		{"nothing", answerOf()},
		{"thoughts in a field", answerOf(delta(`"reasoning_content":"hm"`), content("<think>"))},
		{"a call of a tool, and words behind it", answerOf(delta(call), content("<thin"), content(" ice"))},
		{"two choices in one chunk", with(several, `{"id":"c","choices":[{"index":0,"delta":{"content":"<"}},{"index":1,"delta":{"content":"<t"}}]}`, content("b>"), chunk(1, `"delta":{"content":"d>"}`), chunk(1, `"delta":{},"finish_reason":"stop"`))},
		{"in one piece", answer{format: chat.OpenAI, options: several, body: []byte(whole)}},
		{"of Anthropic's format", answer{format: chat.Anthropic, options: usual(), body: []byte(`{"id":"m","type":"message","model":"m","content":[{"type":"text","text":" Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)}},
	} {
		t.Run(row.about, func(t *testing.T) {
			for cut := range row.answer.body {
				if out, _ := row.answer.shown(row.answer.format, cut); !bytes.Equal(out, row.answer.body) {
					t.Fatalf("cut at %d\n%s\nbecame\n%s", cut, row.answer.body, out)
				}
			}
		})
	}
}

// TestAFrameIsRewrittenAsAWhole: no event of a frame with text and reasoning is forwarded unchanged.
func TestAFrameIsRewrittenAsAWhole(t *testing.T) {
	several := usual()
	several.Choices = 2
	for _, row := range []struct {
		about  string
		answer answer
	}{
		{"two choices, one with a tag, in one chunk", with(several, `{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}},{"index":1,"delta":{"content":"<think>hm</think>Ho"}}]}`, chunk(1, `"delta":{},"finish_reason":"stop"`))},
		{"the same in one piece", answer{format: chat.OpenAI, options: several, body: []byte(`{"id":"c","model":"m","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"},{"index":1,"message":{"content":"<think>hm</think>Ho"},"finish_reason":"stop"}]}`)}},
	} {
		t.Run(row.about, func(t *testing.T) {
			out, _ := row.answer.shown(chat.OpenAI)
			if s := string(out); strings.Contains(s, "<think>") || strings.Count(s, `"Hi"`) != 1 || strings.Count(s, `"Ho"`) != 1 || strings.Count(s, `"hm"`) != 1 {
				t.Errorf("the client reads\n%s", s)
			}
		})
	}
}

func TestReasoningReachesEveryClient(t *testing.T) {
	a := answerOf(content("<think>hm"), content("</think>"), content("Hi"))
	for _, row := range []struct {
		client chat.Dialect
		want   []string
	}{
		{chat.OpenAI, []string{`"delta":{"reasoning_content":"hm"}`, `"delta":{"content":"Hi"}`}},
		{chat.Anthropic, []string{`"type":"thinking_delta","thinking":"hm"`, `"type":"text_delta","text":"Hi"`}},
		{chat.Responses, []string{`"type":"response.reasoning_summary_text.delta"`, `"delta":"hm"`, `"delta":"Hi"`}},
	} {
		out, _ := a.shown(row.client)
		for _, w := range row.want {
			if !strings.Contains(string(out), w) {
				t.Errorf("%s reads no %s in\n%s", row.client, w, out)
			}
		}
		if strings.Contains(string(out), "think>") {
			t.Errorf("%s reads tags in\n%s", row.client, out)
		}
	}
}

func TestTextAllocatesNothing(t *testing.T) {
	for about, first := range map[string]string{"words": "Hi", "thoughts": "<think>hm", "words behind thoughts": "<think>hm</think>Hi"} {
		r := reasoning.NewReader(usual())
		ev := chat.Event{Kind: chat.Text, Text: []byte(first)}
		r.Read(&ev)
		ev.Text = []byte(" a <b> of words </")
		for range 2 {
			r.Read(&ev)
		}
		if n := testing.AllocsPerRun(100, func() { r.Read(&ev) }); n > 0 {
			t.Errorf("%s: %v allocations for each piece", about, n)
		}
	}
}

// TestChoicesMayHaveAnyNumber: an answer is not held for choices that were not requested.
func TestChoicesMayHaveAnyNumber(t *testing.T) {
	r := reasoning.NewReader(usual())
	if got := r.Read(&chat.Event{Kind: chat.Text, Choice: 3, Text: []byte("Hi")}); len(got) != 1 || string(got[0].Text) != "Hi" {
		t.Errorf("got %v", got)
	}
}

// TestTheQueueIsBounded: a choice that stays undecided does not hold the others forever.
func TestTheQueueIsBounded(t *testing.T) {
	o := usual()
	o.Choices = 2
	r := reasoning.NewReader(o)
	r.Read(&chat.Event{Kind: chat.Text, Choice: 1, Index: 1, Text: []byte("<thi")})
	text, emitted := bytes.Repeat([]byte("x"), 1<<10), 0
	for range 1 << 10 {
		for _, ev := range r.Read(&chat.Event{Kind: chat.Text, Text: text}) {
			emitted += len(ev.Text)
		}
	}
	if want := len("<thi") + len(text)<<10; emitted != want {
		t.Errorf("%d bytes were emitted, want %d", emitted, want)
	}
}

// TestTagsInAnthropicsFormat: Anthropic clients get a rewritten, complete message.
func TestTagsInAnthropicsFormat(t *testing.T) {
	for _, g := range goldens(t) {
		if g.name != "anthropic-format-tags.txtar" {
			continue
		}
		out, _ := g.shown(chat.Anthropic)
		var kinds []string
		for l := range strings.Lines(string(out)) {
			if kind, is := strings.CutPrefix(strings.TrimSpace(l), "event: "); is {
				kinds = append(kinds, kind)
			}
		}
		want := "message_start content_block_start content_block_delta content_block_delta content_block_stop content_block_start content_block_delta " +
			"content_block_delta content_block_stop content_block_start content_block_delta content_block_stop message_delta message_stop"
		if got := strings.Join(kinds, " "); got != want || !strings.Contains(string(out), `"index":2,"content_block":{"type":"tool_use"`) {
			t.Errorf("%s\n%s", got, out)
		}
		return
	}
	t.Error("there is no such answer")
}
