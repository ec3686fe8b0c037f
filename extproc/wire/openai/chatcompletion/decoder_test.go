package chatcompletion_test

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
)

// streamRows are streams, and their events.
var streamRows = []struct {
	name, body, want string
}{
	{
		"text, then usage in its own chunk (K-10)",
		sse(delta(`"role":"assistant","content":""`), delta(`"content":"He"`), delta(`"content":"llo\n"`), finish("stop"), usageChunk, "[DONE]"),
		`start c1 up|text 0 "He"|text 0 "llo\n"|close 0|stop end|usage 6+4+0 5/0 final=true|end`,
	},
	{
		"usage inside the finish chunk",
		sse(delta(`"content":"a"`), strings.Replace(finish("length"), `"choices"`, `"usage":{"prompt_tokens":3,"completion_tokens":2},"choices"`, 1), "[DONE]"),
		`start c1 up|text 0 "a"|close 0|stop length|usage 3+0+0 2/0 final=true|end`,
	},
	{
		"running usage in every chunk",
		sse(strings.Replace(delta(`"content":"a"`), `"choices"`, `"usage":{"prompt_tokens":3,"completion_tokens":1},"choices"`, 1), finish("stop"), "[DONE]"),
		`start c1 up|text 0 "a"|usage 3+0+0 1/0 final=false|close 0|stop end|end`,
	},
	{
		"a null delta and none at all with the finish_reason (K-10)",
		sse(delta(`"content":"a"`), chunk(`"delta":null`), chunk(`"finish_reason":"stop"`), "[DONE]"),
		`start c1 up|text 0 "a"|other|close 0|stop end|end`,
	},
	{
		"reasoning before text (K-06)",
		sse(delta(`"reasoning_content":"hm"`), delta(`"reasoning_content":"m","content":null`), delta(`"content":"a","reasoning_content":null`), finish("stop"), "[DONE]"),
		`start c1 up|thought 0 "hm"|thought 0 "m"|close 0|text 1 "a"|close 1|stop end|end`,
	},
	{
		"reasoning told twice counts once",
		sse(delta(`"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]`), finish("stop"), "[DONE]"),
		`start c1 up|extra 0 reasoning  (redundant)|extra 0 reasoning_details [{"type":"reasoning.text","text":"hm"}] (redundant)|thought 0 "hm"|close 0|stop end|end`,
	},
	{
		"reasoning_details alone, as a string and as objects",
		sse(delta(`"reasoning_details":"a"`), delta(`"reasoning_details":[{"text":"b"},{"summary":"c"}]`), finish("stop"), "[DONE]"),
		`start c1 up|extra 0 reasoning_details "a" (redundant)|thought 0 "a"|extra 0 reasoning_details [{"text":"b"},{"summary":"c"}] (redundant)|thought 0 "b"|thought 0 "c"|close 0|stop end|end`,
	},
	{
		"content as typed parts",
		sse(delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"a"}]`), finish("stop"), "[DONE]"),
		`start c1 up|thought 0 "t"|close 0|text 1 "a"|close 1|stop end|end`,
	},
	{
		"a refusal",
		sse(delta(`"refusal":"no"`), finish("content_filter"), "[DONE]"),
		`start c1 up|refusal 0 "no"|close 0|stop refusal|end`,
	},
	{
		"text and parallel tools (K-01, K-03, K-09)",
		sse(delta(`"content":"ok"`),
			delta(`"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`),
			delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]`),
			delta(`"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]`),
			delta(`"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]`),
			finish("tool_calls"), "[DONE]"),
		`start c1 up|text 0 "ok"|close 0|tool 1 a f|args 1 {"x":|args 1 1}|tool 2 b g|args 2 {}|close 1|close 2|stop tool|end`,
	},
	{
		"tools that interleave",
		sse(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}},{"index":1,"id":"b","function":{"name":"g"}}]`),
			delta(`"tool_calls":[{"index":1,"function":{"arguments":"B"}},{"index":0,"function":{"arguments":"A"}}]`),
			finish("tool_calls"), "[DONE]"),
		`start c1 up|tool 0 a f|tool 1 b g|args 1 B|args 0 A|close 0|close 1|stop tool|end`,
	},
	{
		"all arguments at once, as an object, and stop instead of tool_calls (K-02, K-09)",
		sse(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]`), finish("stop"), "[DONE]"),
		`start c1 up|tool 0 a f|args 0 {"x":1}|close 0|stop tool|end`,
	},
	{
		"nulls for a name and an id say nothing new (K-08)",
		sse(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]`),
			delta(`"tool_calls":[{"index":0,"id":null,"type":null,"function":{"name":null,"arguments":"2"}}]`),
			finish("tool_calls"), "[DONE]"),
		`start c1 up|tool 0 a f|args 0 1|args 0 2|close 0|stop tool|end`,
	},
	{
		"a tool without arguments (K-04)",
		sse(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`), finish("tool_calls"), "[DONE]"),
		`start c1 up|tool 0 a f|close 0|stop tool|end`,
	},
	{
		"calls that all have number 0, and calls without numbers or ids",
		sse(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]`),
			delta(`"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"2"}}]`),
			delta(`"tool_calls":[{"index":0,"function":{"arguments":"3"}}]`),
			finish("tool_calls"), "[DONE]"),
		`start c1 up|tool 0 a f|args 0 1|tool 1 b g|args 1 2|args 1 3|close 0|close 1|stop tool|end`,
	},
	{
		"a call without an id gets one",
		sse(delta(`"tool_calls":[{"function":{"name":"f","arguments":"1"}}]`), finish("tool_calls"), "[DONE]"),
		`start c1 up|tool 0 call_c1_0 f|args 0 1|close 0|stop tool|end`,
	},
	{
		"calls without numbers and ids, together and one by one",
		sse(delta(`"tool_calls":[{"function":{"name":"f","arguments":"1"}},{"id":"","function":{"name":"f","arguments":"2"}}]`),
			delta(`"tool_calls":[{"function":{"name":"g","arguments":"3"}}]`),
			delta(`"tool_calls":[{"function":{"name":"","arguments":"4"}}]`),
			finish("tool_calls"), "[DONE]"),
		`start c1 up|tool 0 call_c1_0 f|args 0 1|tool 1 call_c1_1 f|args 1 2|tool 2 call_c1_2 g|args 2 3|args 2 4|close 0|close 1|close 2|stop tool|end`,
	},
	{
		"a last message that repeats calls without numbers and ids",
		sse(delta(`"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g","arguments":"2"}}]`),
			`{"id":"c1","model":"up","choices":[{"index":0,"message":{"tool_calls":[{"function":{"name":"f","arguments":"1"}},{"function":{"name":"g","arguments":"2"}}]},"finish_reason":"stop"}]}`,
			"[DONE]"),
		`start c1 up|tool 0 call_c1_0 f|tool 1 call_c1_1 g|args 1 2|args 0 1|close 0|close 1|stop tool|end`,
	},
	{
		"two choices",
		sse(delta(`"content":"a"`), strings.Replace(delta(`"content":"b"`), `"index":0`, `"index":1`, 1),
			finish("stop"), strings.Replace(finish("length"), `"index":0`, `"index":1`, 1), "[DONE]"),
		`start c1 up|text 0 "a"|text 1/1 "b"|close 0|stop end|close 1/1|stop length|end`,
	},
	{
		"comments, unknown objects and broken JSON between",
		": OPENROUTER PROCESSING\n\n" + sse(delta(`"content":"a"`), `{"object":"ping"}`, `{"broken`, finish("stop"), "[DONE]"),
		`other|start c1 up|text 0 "a"|other|extra 0 unreadable_event |close 0|stop end|end`,
	},
	{
		"no terminator, but a finish_reason",
		sse(delta(`"content":"a"`), finish("stop"), usageChunk),
		`start c1 up|text 0 "a"|close 0|stop end|usage 6+4+0 5/0 final=true|end`,
	},
	{
		"a last event without its blank line (K-37)",
		strings.TrimRight(sse(delta(`"content":"a"`), finish("stop"), "[DONE]"), "\n"),
		`start c1 up|text 0 "a"|close 0|stop end|end`,
	},
	{
		"CRLF and no space after the colon (K-37)",
		strings.ReplaceAll(strings.ReplaceAll(sse(delta(`"content":"a"`), finish("stop"), "[DONE]"), "data: ", "data:"), "\n", "\r\n"),
		`start c1 up|text 0 "a"|close 0|stop end|end`,
	},
	{
		"cut in the middle (K-47)",
		sse(delta(`"content":"a"`)),
		`start c1 up|text 0 "a"|error 502 truncated  the provider's stream ended before its answer was complete`,
	},
	{"an empty body", "", `error 502 truncated  the provider's stream ended before its answer was complete`},
	{"a terminator and nothing else (K-93)", sse("[DONE]"), `error 502 empty  the provider ended its stream without an answer`},
	{
		"an error without code first (K-48)",
		sse(`{"error":{"message":"boom"}}`, "[DONE]"),
		`error 500   boom`,
	},
	{
		"an error whose type implies a status (K-44)",
		sse(delta(`"content":"a"`), `{"error":{"message":"busy","type":"overloaded_error"}}`),
		`start c1 up|text 0 "a"|error 529 overloaded_error  busy`,
	},
	{
		"an error whose code is a status",
		sse(`{"id":"c1","error":{"message":"slow","code":429},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`),
		`error 429  429 slow`,
	},
	{
		"an error event",
		"event: error\ndata: {\"message\":\"bad\",\"type\":\"server_error\"}\n\n",
		`error 500 server_error  bad`,
	},
	{"what follows the end does not exist", sse(delta(`"content":"a"`), "[DONE]", delta(`"content":"b"`)), `start c1 up|text 0 "a"|end`},
}

func TestAStreamBecomesEvents(t *testing.T) {
	for _, r := range streamRows {
		t.Run(r.name, func(t *testing.T) {
			events, raw := read(chatcompletion.NewDecoder(streamed(), 200, eventStream), r.body)
			if got := strings.Join(events, "|"); got != r.want {
				t.Errorf("\ngot  %s\nwant %s", got, r.want)
			}
			if !strings.HasPrefix(r.body+"\n\n", raw) {
				t.Errorf("raw bytes are %q", raw)
			}
		})
	}
}

func TestBytesPassOnlyInTheRequestedForm(t *testing.T) {
	stream := sse(delta(`"content":"a"`), finish("stop"), "[DONE]")
	whole := `{"id":"c1","model":"up","choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`
	anthropic := &chat.Request{Dialect: chat.Anthropic, Stream: true}
	rows := []struct {
		name string
		req  *chat.Request
		h    header.List
		body string
		raw  bool
	}{
		{"stream for stream", streamed(), eventStream, stream, true},
		{"stream without a content type", streamed(), nil, stream, true},
		{"JSON for JSON", unstreamed(), jsonBody, whole, true},
		{"JSON for stream", streamed(), jsonBody, whole, false},
		{"stream for JSON", unstreamed(), eventStream, stream, false},
		{"another dialect", anthropic, eventStream, stream, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			events, raw := read(chatcompletion.NewDecoder(r.req, 200, r.h), r.body)
			if got := strings.Join(events, "|"); got != `start c1 up|text 0 "a"|close 0|stop end|end` {
				t.Errorf("got %s", got)
			}
			if (raw == r.body) != r.raw || (raw == "") == r.raw {
				t.Errorf("raw is %q", raw)
			}
		})
	}
}

func TestAWholeAnswerBecomesEvents(t *testing.T) {
	rows := []struct{ name, body, want string }{
		{
			"everything",
			`{"id":"c1","model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"t","refusal":null,` +
				`"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"k\":\"v\"}"}},{"id":"y","function":{"name":"g","arguments":""}}]},` +
				`"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":2}}}`,
			`start c1 up|thought 0 "t"|close 0|text 1 "a"|close 1|tool 2 x f|args 2 {"k":"v"}|tool 3 y g|close 2|close 3|stop tool|usage 10+0+0 5/2 final=true|end`,
		},
		{
			"calls without ids",
			`{"id":"c1","choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"id":"","function":{"name":"f","arguments":"{\"k\":1}"}}]}}]}`,
			`start c1 |tool 0 call_c1_0 f|args 0 {}|tool 1 call_c1_1 f|args 1 {"k":1}|close 0|close 1|stop tool|end`,
		},
		{
			"calls with the same id and number",
			`{"id":"c1","choices":[{"message":{"tool_calls":[{"id":"x","index":0,"function":{"name":"f"}},{"id":"x","index":0,"function":{"name":"g","arguments":"{}"}}]}}]}`,
			`start c1 |tool 0 x f|tool 1 x g|args 1 {}|close 0|close 1|stop tool|end`,
		},
		{
			"the predecessor of tool_calls",
			`{"id":"c1","choices":[{"message":{"content":"a","function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}`,
			`start c1 |text 0 "a"|close 0|tool 1 call_c1_1 f|args 1 {}|close 1|stop tool|end`,
		},
		{
			"a message with all members, which are empty",
			`{"id":"c1","choices":[{"message":{"content":"a","function_call":{"name":"","arguments":""},"tool_calls":null,"refusal":""},"finish_reason":""}]}`,
			`start c1 |text 0 "a"|close 0|stop end|end`,
		},
		{"no finish_reason", `{"choices":[{"message":{"content":"a"}}]}`, `start  |text 0 "a"|close 0|stop end|end`},
		{"no choices (K-93)", `{"id":"c1","choices":[]}`, `error 502 empty  the provider's answer has no choices`},
		{"a choice that says nothing", `{"id":"c1","choices":[{}]}`, `error 502 empty  the provider's answer has no choices`},
		{"a choice without a message", `{"id":"c1","choices":[{"index":0,"message":null}]}`, `error 502 empty  the provider's answer has no choices`},
		{"a filtered choice without a message", `{"id":"c1","choices":[{"finish_reason":"content_filter"}]}`, `start c1 |stop refusal|end`},
		{
			"a call with null for its arguments",
			`{"id":"c1","choices":[{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"null"}}]}}]}`,
			`start c1 |tool 0 x f|close 0|stop tool|end`,
		},
		{"an error with status 200", `{"error":{"message":"m","code":"rate_limit_exceeded"}}`, `error 429  rate_limit_exceeded m`},
		{"not JSON", `<html>`, `error 502 invalid_response  the provider's answer is not valid JSON`},
		{"cut", `{"choices":[{"message":{"content":"a`, `error 502 invalid_response  the provider's answer is not valid JSON`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			events, _ := read(chatcompletion.NewDecoder(unstreamed(), 200, jsonBody), r.body, len(r.body)/2)
			if got := strings.Join(events, "|"); got != r.want {
				t.Errorf("\ngot  %s\nwant %s", got, r.want)
			}
		})
	}
}

func TestAnErrorAnswerIsOneErrorEvent(t *testing.T) {
	h := header.List{{Name: "content-type", Value: "text/event-stream"}, {Name: "retry-after", Value: "7"}}
	for _, body := range []string{`{"error":{"message":"slow down","type":"requests"}}`, "slow down"} {
		d := chatcompletion.NewDecoder(streamed(), 429, h)
		if evs := d.Decode([]byte(body[:3]), false); len(evs) != 0 {
			t.Fatalf("an early event: %s", describe(&evs[0]))
		}
		evs := d.Decode([]byte(body[3:]), true)
		if len(evs) != 1 || evs[0].Err == nil || evs[0].Err.Status != 429 || evs[0].Err.RetryAfter != 7 || evs[0].Err.Message != "slow down" {
			t.Errorf("%s gave %+v", body, evs)
		}
	}
}

func TestUsageIsReadFromWhatProvidersWrite(t *testing.T) {
	rows := []struct{ usage, want string }{
		{`{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":3}}`, "40+60+0 7/3"},
		{`{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":null,"completion_tokens_details":null}`, "100+0+0 7/0"},
		{`{"prompt_tokens":100.0,"completion_tokens":7e0}`, "100+0+0 7/0"},
		{`{"prompt_tokens":null}`, "0+0+0 0/0"},
		{`{"prompt_tokens":-5,"completion_tokens":"7"}`, "0+0+0 0/0"},
		{`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":99}}`, "0+10+0 0/0"},
		{`{"prompt_tokens":100,"prompt_cache_hit_tokens":64,"completion_tokens":1}`, "36+64+0 1/0"},
		{`{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":50}}`, "40+10+50 0/0"},
		{`{"prompt_tokens":100,"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":60,"cached_tokens":50},"completion_tokens":1,"completion_tokens":2}`, "50+50+0 2/0"},
		{`{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":60},"prompt_tokens_details":{"cache_write_tokens":5}}`, "95+0+5 0/0"},
		{`{"prompt_tokens":9223372036854775807,"completion_tokens":1e300}`, "9007199254740992+0+0 9007199254740992/0"},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}`, "10+0+0 25/20"},
		{`{"prompt_tokens":10,"completion_tokens":25,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}`, "10+0+0 25/20"},
	}
	for _, r := range rows {
		body := `{"choices":[{"message":{"content":"a"}}],"usage":` + r.usage + `}`
		events, _ := read(chatcompletion.NewDecoder(unstreamed(), 200, jsonBody), body)
		if got := events[len(events)-2]; got != "usage "+r.want+" final=true" {
			t.Errorf("%s\ngot %s, want %s", r.usage, got, r.want)
		}
	}
}

func TestSearchesOfTheWebAreCounted(t *testing.T) {
	for _, r := range []struct {
		about, more, usage string
		want               int64
	}{
		{"Perplexity", "", `"num_search_queries":3`, 3},
		{"OpenRouter", "", `"server_tool_use":{"web_search_requests":2}`, 2},
		{"Venice, which does not count", `,"venice_parameters":{"web_search_citations":[{"url":"u"}]}`, `"completion_tokens":1`, 1},
		{"Venice without a search", `,"venice_parameters":{"web_search_citations":[]}`, `"completion_tokens":1`, 0},
	} {
		for stream, body := range map[bool]string{
			false: `{"choices":[{"message":{"content":"a"}}]` + r.more + `,"usage":{` + r.usage + `}}`,
			true:  sse(delta(`"content":"a"`), finish("stop"), `{"choices":[]`+r.more+`,"usage":{`+r.usage+`}}`, "[DONE]"),
		} {
			d := chatcompletion.NewDecoder(unstreamed(), 200, jsonBody)
			if stream {
				d = chatcompletion.NewDecoder(streamed(), 200, eventStream)
			}
			var u chat.Usage
			for _, ev := range d.Decode([]byte(body), true) {
				u.Merge(ev.Usage)
			}
			if u.Searches != r.want {
				t.Errorf("%s (stream %v): %d, want %d", r.about, stream, u.Searches, r.want)
			}
		}
	}
}

func TestWhereTheModelIsNamed(t *testing.T) {
	body := sse(delta(`"content":"a"`), finish("stop"), usageChunk, "[DONE]")
	named := 0
	for _, ev := range chatcompletion.NewDecoder(streamed(), 200, eventStream).Decode([]byte(body), true) {
		if s := ev.ModelSpan; s.End > 0 {
			named++
			if got := string(ev.Raw[s.Start:s.End]); got != `"up"` {
				t.Errorf("the model is %s", got)
			}
		}
	}
	if named != 3 {
		t.Errorf("%d frames name the model", named)
	}
}

func TestK39AnOversizedFrameIsSkipped(t *testing.T) {
	body := sse(delta(`"content":"a"`), delta(`"content":"`+strings.Repeat("x", 17<<20)+`"`), finish("stop"), "[DONE]")
	events, _ := read(chatcompletion.NewDecoder(streamed(), 200, eventStream), body)
	if got := strings.Join(events, "|"); got != `start c1 up|text 0 "a"|extra 0 oversized_event |close 0|stop end|end` {
		t.Errorf("got %.300s", got)
	}
}

func TestTooManyToolCallsAreAnError(t *testing.T) {
	for n, wantError := range map[int]bool{1024: false, 1025: true} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `%s{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}`, strings.Repeat(",", min(i, 1)), i, i)
		}
		req := &chat.Request{Dialect: chat.Anthropic, Stream: true, Choices: 1}
		d := chatcompletion.NewDecoder(req, 200, header.List{{Name: "content-type", Value: "text/event-stream"}})
		failed := false
		for _, ev := range d.Decode([]byte(`data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[`+b.String()+"]}}]}\n\n"), false) {
			failed = failed || ev.Kind == chat.Error
		}
		if failed != wantError {
			t.Errorf("%d calls fail: %t", n, failed)
		}
	}
}
