package chatcompletion_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/fault"
)

// encode encodes events for a client with these options.
func encode(o wire.Options, events ...chat.Event) string {
	enc := chatcompletion.NewEncoder(o)
	var out []byte
	for i := range events {
		out = enc.Append(out, &events[i])
	}
	return string(out)
}

func text(s string) chat.Event { return chat.Event{Kind: chat.Text, Text: []byte(s)} }

func tool(block int, id, name string) chat.Event {
	return chat.Event{Kind: chat.ToolStart, Index: block, Tool: chat.ToolCall{ID: id, Name: name}}
}

func args(block int, s string) chat.Event {
	return chat.Event{Kind: chat.ToolArgs, Index: block, Text: []byte(s)}
}

func stop(r chat.StopReason) chat.Event { return chat.Event{Kind: chat.Stop, Reason: r} }

func usage(cached, out, reasoning int64) chat.Event {
	return chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 1, Cached: cached, Output: out, Reasoning: reasoning, Final: true}}
}

var (
	start = chat.Event{Kind: chat.Start, ID: "msg_1", Model: "claude"}
	end   = chat.Event{Kind: chat.End}
)

func TestATranslatedStream(t *testing.T) {
	const head = `{"id":"chatcmpl-r1","object":"chat.completion.chunk","created":9,"model":"m","choices":[`
	first := head + `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	piece := func(d string) string { return head + `{"index":0,"delta":{` + d + `},"finish_reason":null}]}` }
	last := func(r string) string { return head + `{"index":0,"delta":{},"finish_reason":"` + r + `"}]}` }
	opened := func(i, id, name string) string {
		return piece(`"tool_calls":[{"index":` + i + `,"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":""}}]`)
	}
	continued := func(i, a string) string {
		return piece(`"tool_calls":[{"index":` + i + `,"function":{"arguments":` + a + `}}]`)
	}
	rows := []struct {
		name   string
		show   bool
		events []chat.Event
		want   []string
	}{
		{
			"text and thought", false,
			[]chat.Event{start, {Kind: chat.Thought, Text: []byte("hm")}, {Kind: chat.Signature, Text: []byte("s")}, {Kind: chat.BlockStop}, text("a\n\"<é"), stop(chat.StopLength), usage(2, 3, 0), end},
			[]string{first, piece(`"reasoning_content":"hm"`), piece(`"content":"a\n\"<é"`), last("length"), "[DONE]"},
		},
		{
			"usage for those who asked, before the terminator (K-28)", true,
			[]chat.Event{start, text("a"), stop(chat.StopEnd), usage(2, 3, 1), end},
			[]string{first, piece(`"content":"a"`), last("stop"), head + `],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}`, "[DONE]"},
		},
		{
			"usage from the beginning is not lost (K-30)", true,
			[]chat.Event{start, {Kind: chat.UsageInfo, Usage: chat.Usage{Input: 5, Cached: 5}}, text("a"), stop(chat.StopEnd), {Kind: chat.UsageInfo, Usage: chat.Usage{Output: 2}}, end},
			[]string{first, piece(`"content":"a"`), last("stop"), head + `],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":0}}}`, "[DONE]"},
		},
		{
			"tools alone start at 0 (K-03, K-08, K-09)", false,
			[]chat.Event{start, tool(0, "a", "f"), args(0, `{"x":`), args(0, ``), args(0, `1}`), {Kind: chat.BlockStop}, stop(chat.StopEnd), end},
			[]string{first, opened("0", "a", "f"), continued("0", `"{\"x\":"`), continued("0", `"1}"`), last("tool_calls"), "[DONE]"},
		},
		{
			"text, then parallel tools, one without arguments (K-03, K-04, K-07)", false,
			[]chat.Event{start, text("a"), {Kind: chat.BlockStop}, tool(1, "a", "f"), {Kind: chat.BlockStop, Index: 1}, tool(2, "b", "g"), args(2, `{}`), {Kind: chat.BlockStop, Index: 2}, stop(chat.StopTool), end},
			[]string{first, piece(`"content":"a"`), opened("0", "a", "f"), continued("0", `"{}"`), opened("1", "b", "g"), continued("1", `"{}"`), last("tool_calls"), "[DONE]"},
		},
		{
			"a refusal, without Stop", false,
			[]chat.Event{start, {Kind: chat.Refusal, Text: []byte("no")}, end},
			[]string{first, piece(`"refusal":"no"`), last("stop"), "[DONE]"},
		},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got := encode(wire.Options{Stream: true, Model: "m", RequestID: "r1", Created: 9, ShowUsage: r.show}, r.events...)
			if want := sse(r.want...); got != want {
				t.Errorf("\ngot  %s\nwant %s", got, want)
			}
		})
	}
}

func TestATranslatedBody(t *testing.T) {
	rows := []struct {
		name   string
		events []chat.Event
		want   string
	}{
		{
			"text and thought",
			[]chat.Event{start, {Kind: chat.Thought, Text: []byte("h")}, text("a"), text("b"), stop(chat.StopEnd), usage(0, 2, 0), end},
			`{"index":0,"message":{"role":"assistant","content":"ab","reasoning_content":"h"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`,
		},
		{
			"tools, one without arguments",
			[]chat.Event{start, tool(0, "a", "f"), args(0, `{"x":`), args(0, `1}`), tool(1, "b", "g"), stop(chat.StopTool), usage(0, 2, 0), end},
			`{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`,
		},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			o := wire.Options{Model: "m", RequestID: "r1", Created: 9}
			if early := encode(o, r.events[:len(r.events)-1]...); early != "" {
				t.Errorf("before the end it wrote %s", early)
			}
			got := encode(o, r.events...)
			if want := `{"id":"chatcmpl-r1","object":"chat.completion","created":9,"model":"m","choices":[` + r.want; got != want || !json.Valid([]byte(got)) {
				t.Errorf("\ngot  %s\nwant %s", got, want)
			}
		})
	}
}

// through decodes a body and encodes it for a client of the same dialect.
func through(o wire.Options, body string, cuts ...int) string {
	req := &chat.Request{Dialect: chat.OpenAI, Stream: o.Stream, Choices: 1}
	d := chatcompletion.NewDecoder(req, 200, nil)
	enc := chatcompletion.NewEncoder(o)
	var out []byte
	at := 0
	for _, cut := range append(cuts, len(body)) {
		piece := []byte(body[at:cut])
		events := d.Decode(piece, cut == len(body))
		for i := range events {
			out = enc.Append(out, &events[i])
		}
		for i := range piece {
			piece[i] = '#'
		}
		at = cut
	}
	return string(out)
}

func TestTheSameDialectPassesUnchanged(t *testing.T) {
	odd := ": comment\n\n" + "data:" + delta(`"content":"a",  "x":1.50`) + "\r\n\r\n" + sse(`{"unknown":true}`, finish("stop"), usageChunk, "[DONE]")
	hidden := strings.Replace(odd, sse(usageChunk), "", 1)
	body := "\n{ \"id\": \"c1\", \"model\":\"up\", \"choices\":[{\"message\":{\"content\":\"a\"}}], \"x\": 1e400 }\n"
	rows := []struct {
		name    string
		o       wire.Options
		in, out string
	}{
		{"a stream", wire.Options{Same: true, Stream: true, ShowUsage: true}, odd, odd},
		{"a stream whose usage was not asked for (K-28)", wire.Options{Same: true, Stream: true}, odd, hidden},
		{"a stream with its own model's name", wire.Options{Same: true, Stream: true, ShowUsage: true, Model: "up"}, odd, odd},
		{"a stream with another name", wire.Options{Same: true, Stream: true, ShowUsage: true, Model: "x/\"y"}, odd, strings.ReplaceAll(odd, `"up"`, `"x/\"y"`)},
		{"a body", wire.Options{Same: true}, body, body},
		{"a body with another name", wire.Options{Same: true, Model: "m"}, body, strings.Replace(body, `"up"`, `"m"`, 1)},
		{"a stream without terminator", wire.Options{Same: true, Stream: true}, sse(delta(`"content":"a"`), finish("stop")), sse(delta(`"content":"a"`), finish("stop"), "[DONE]")},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := through(r.o, r.in, 10); got != r.out {
				t.Errorf("\ngot  %q\nwant %q", got, r.out)
			}
		})
	}
}

func TestAnEventWithoutBytesIsWrittenLikeItsStream(t *testing.T) {
	enc := chatcompletion.NewEncoder(wire.Options{Same: true, Stream: true, Created: 9, RequestID: "r1"})
	frame := []byte(sse(delta(`"content":"a"`)))
	first := chat.Event{Kind: chat.Start, ID: "c1", Model: "up", Raw: frame}
	edited := text("b")
	got := string(enc.Append(enc.Append(nil, &first), &edited))
	want := string(frame) + sse(`{"id":"c1","object":"chat.completion.chunk","created":9,"model":"up","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}`)
	if got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
}

func TestErrorsAreWhatSDKsExpect(t *testing.T) {
	rows := []struct {
		kind      fault.Kind
		param     string
		typ, tail string
	}{
		{fault.InvalidRequest, "messages", "invalid_request_error", `"param":"messages","code":"invalid_request"}`},
		{fault.TooLarge, "", "invalid_request_error", `"param":null,"code":"request_too_large"}`},
		{fault.InvalidAPIKey, "", "authentication_error", `"param":null,"code":"invalid_api_key"}`},
		{fault.InsufficientFunds, "", "insufficient_quota", `"param":null,"code":"insufficient_balance"}`},
		{fault.KeyRestricted, "", "permission_error", `"param":null,"code":"key_restricted"}`},
		{fault.ModelNotFound, "", "not_found_error", `"param":null,"code":"model_not_found"}`},
		{fault.RateLimited, "", "rate_limit_error", `"param":null,"code":"rate_limit_exceeded"}`},
		{fault.Internal, "", "api_error", `"param":null,"code":"internal"}`},
		{fault.Upstream, "", "api_error", `"param":null,"code":"upstream_error"}`},
		{fault.NoProvider, "", "overloaded_error", `"param":null,"code":"no_provider"}`},
		{fault.UpstreamTimeout, "", "timeout_error", `"param":null,"code":"upstream_timeout"}`},
	}
	refused := &fault.Fault{Kind: fault.InvalidRequest, Public: "no", Code: "tool_use_failed", Generated: `{"k":1}`}
	const want = `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"tool_use_failed","failed_generation":"{\"k\":1}"}}`
	if got := string(openai.Dialect{}.Error(refused, "")); got != want {
		t.Errorf("with what was generated: %s", got)
	}
	for _, r := range rows {
		f := fault.New(r.kind, `it "failed"`, nil)
		f.Param, f.RetryAfter = r.param, time.Second
		want := `{"error":{"message":"it \"failed\"","type":"` + r.typ + `",` + r.tail + `,"request_id":"r1"}`
		if got := string(openai.Dialect{}.Error(f, "r1")); got != want {
			t.Errorf("\ngot  %s\nwant %s", got, want)
		}
		enc := chatcompletion.NewEncoder(wire.Options{Stream: true, RequestID: "r1"})
		if got := string(enc.Error(nil, f)); got != sse(want) {
			t.Errorf("in a stream: %s", got)
		}
	}
}
