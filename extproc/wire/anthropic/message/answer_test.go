package message_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/internal/header"
)

var _ provider.Decoder = (*message.Decoder)(nil)

var (
	eventStream = header.List{{Name: "content-type", Value: "text/event-stream; charset=utf-8"}}
	jsonBody    = header.List{{Name: "content-type", Value: "application/json"}}
)

func streamed() *chat.Request { return &chat.Request{Dialect: chat.Anthropic, Stream: true} }

// event is a chat.Event, copied.
type event struct {
	kind   chat.EventKind
	index  int
	text   string
	tool   chat.ToolCall
	reason chat.StopReason
	usage  chat.Usage
	err    chat.ProviderError
	id     string
	model  string
	raw    string
	span   string // the text at Raw[ModelSpan]
	tail   bool
}

func copied(ev *chat.Event) event {
	e := event{
		kind: ev.Kind, index: ev.Index, text: string(ev.Text), tool: ev.Tool, reason: ev.Reason, usage: ev.Usage,
		id: ev.ID, model: ev.Model, raw: string(ev.Raw), tail: ev.Tail,
	}
	if ev.Err != nil {
		e.err = *ev.Err
	}
	if ev.Raw != nil {
		e.span = string(ev.Raw[ev.ModelSpan.Start:ev.ModelSpan.End])
	}
	return e
}

func decodeAll(d *message.Decoder, chunks ...string) []event {
	var got []event
	for i, c := range chunks {
		for _, ev := range d.Decode([]byte(c), i == len(chunks)-1) {
			got = append(got, copied(&ev))
		}
	}
	return got
}

// meaning returns events without their bytes and the provider's own usage.
func meaning(events []event) []event {
	events = slices.Clone(events)
	for i := range events {
		events[i].raw, events[i].span, events[i].tail = "", "", false
		if events[i].kind == chat.UsageInfo {
			events[i].text = ""
		}
	}
	return slices.DeleteFunc(events, func(e event) bool { return e.kind == chat.Other })
}

// frame formats an event as Anthropic does.
func frame(data string) string {
	name := data[len(`{"type":"`):]
	return "event: " + name[:strings.IndexByte(name, '"')] + "\ndata: " + data + "\n\n"
}

func stream(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString(frame(d))
	}
	return b.String()
}

const (
	begin = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":5,"cache_read_input_tokens":3,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":4},"output_tokens":1}}}`
	over  = `{"type":"message_stop"}`
)

var longStream = stream(begin,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"let me \"see\""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"opaque"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hé\n"}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"content_block_start","index":4,"content_block":{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}}`,
	`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
	`{"type":"content_block_stop","index":4}`,
	`{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"g","input":{"b":2}}}`,
	`{"type":"content_block_stop","index":5}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":30,"cache_creation_input_tokens":5}}`,
	over)

func TestAStreamIsReadAsEvents(t *testing.T) {
	start := chat.Usage{Input: 7, Cached: 3, CacheWrite: 1, CacheWrite1h: 4, Output: 1}
	final := chat.Usage{
		Input: 7, Cached: 3, CacheWrite: 1, CacheWrite1h: 4, Output: 30, Final: true, Reasoning: 3, ReasoningEstimated: true,
	}
	want := []event{
		{kind: chat.Start, id: "msg_1", model: "claude-x"},
		{kind: chat.UsageInfo, usage: start},
		{kind: chat.Thought, text: `let me "see"`, id: chat.ClaudeThinking},
		{kind: chat.Signature, text: "sig", id: chat.ClaudeThinking},
		{kind: chat.BlockStop},
		{kind: chat.Redacted, index: 1, text: "opaque", id: chat.ClaudeThinking},
		{kind: chat.BlockStop, index: 1},
		{kind: chat.Text, index: 2, text: "Hé\n"},
		{kind: chat.BlockStop, index: 2},
		{kind: chat.ToolStart, index: 3, tool: chat.ToolCall{ID: "toolu_1", Name: "f"}},
		{kind: chat.ToolArgs, index: 3, text: `{"a":`},
		{kind: chat.ToolArgs, index: 3, text: `1}`},
		{kind: chat.BlockStop, index: 3},
		{kind: chat.Extra, index: 4, id: "server_tool_use", tool: chat.ToolCall{ID: "srv", Name: "web_search"}, text: `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`},
		{kind: chat.ToolStart, index: 5, tool: chat.ToolCall{ID: "toolu_2", Name: "g"}},
		{kind: chat.ToolArgs, index: 5, text: `{"b":2}`},
		{kind: chat.BlockStop, index: 5},
		{kind: chat.Stop, reason: chat.StopTool},
		{kind: chat.UsageInfo, usage: final},
		{kind: chat.End},
	}
	got := decodeAll(message.NewDecoder(streamed(), 200, eventStream), longStream)
	if !reflect.DeepEqual(meaning(got), want) {
		t.Errorf("got  %+v\nwant %+v", meaning(got), want)
	}
	var raw strings.Builder
	for _, e := range got {
		if e.tail == (e.raw != "") {
			t.Errorf("%+v: an event has its own bytes or is the tail of one that has", e)
		}
		raw.WriteString(e.raw)
	}
	if raw.String() != longStream {
		t.Error("the events' bytes are not the stream")
	}
	if got[0].span != `"claude-x"` {
		t.Errorf("the model is said to stand at %q", got[0].span)
	}
}

// usageAtStart returns a message_start with a usage object.
func usageAtStart(usage string) string {
	return `{"type":"message_start","message":{"id":"m","model":"x","usage":` + usage + `}}`
}

// usageAtEnd returns a message_delta with a usage object.
func usageAtEnd(usage string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + `}`
}

// usageRows are usage reports of a stream, and the resulting usage.
var usageRows = []struct {
	name   string
	events []string
	want   chat.Usage
	total  int64
}{
	{
		"K-29 only at the end",
		[]string{
			usageAtStart(`{"input_tokens":0,"output_tokens":0}`),
			usageAtEnd(`{"input_tokens":4522,"cache_creation_input_tokens":4511,"cache_read_input_tokens":0,"output_tokens":5}`),
		},
		chat.Usage{Input: 4522, CacheWrite: 4511, Output: 5, Final: true},
		9038,
	},
	{
		"K-30 zeros at the end erase nothing",
		[]string{
			usageAtStart(`{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}`),
			usageAtEnd(`{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}`),
		},
		chat.Usage{Input: 10, CacheWrite: 20, Cached: 30, Output: 9, Final: true},
		69,
	},
	{
		"a sum at the end does not count the hour's writes twice",
		[]string{
			usageAtStart(`{"input_tokens":1,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":60},"output_tokens":1}`),
			usageAtEnd(`{"cache_creation_input_tokens":100,"output_tokens":2}`),
		},
		chat.Usage{Input: 1, CacheWrite: 40, CacheWrite1h: 60, Output: 2, Final: true},
		103,
	},
	{
		"thinking counted by the provider",
		[]string{usageAtStart(`{"input_tokens":1}`), usageAtEnd(`{"output_tokens":50,"output_tokens_details":{"thinking_tokens":40}}`)},
		chat.Usage{Input: 1, Output: 50, Reasoning: 40, Final: true},
		51,
	},
	{
		"no count of the output is no last word",
		[]string{usageAtStart(`{"input_tokens":1,"output_tokens":1}`), usageAtEnd(`{"output_tokens":0}`)},
		chat.Usage{Input: 1, Output: 1},
		2,
	},
	{"nothing, null and nonsense", []string{usageAtStart(`null`), usageAtEnd(`{"input_tokens":-4,"output_tokens":"9"}`)}, chat.Usage{}, 0},
}

func TestTheLastNonZeroUsageCounts(t *testing.T) {
	for _, tt := range usageRows {
		t.Run(tt.name, func(t *testing.T) {
			var got chat.Usage
			for _, e := range decodeAll(message.NewDecoder(streamed(), 200, eventStream), stream(append(tt.events, over)...)) {
				got.Merge(e.usage)
			}
			if got != tt.want || got.TotalInput()+got.Output != tt.total {
				t.Errorf("got %+v, %d in all\nwant %+v, %d", got, got.TotalInput()+got.Output, tt.want, tt.total)
			}
		})
	}
}

// failureRows are failed answers, and their errors.
var failureRows = []struct {
	name   string
	status int
	header header.List
	req    *chat.Request
	body   string
	want   chat.ProviderError
}{
	{
		name: "K-44 an error event first", status: 200, header: eventStream, req: streamed(),
		body: stream(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		want: chat.ProviderError{Status: 529, Type: "overloaded_error", Message: "Overloaded"},
	},
	{
		name: "an error event later", status: 200, header: eventStream, req: streamed(),
		body: stream(begin, `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, over),
		want: chat.ProviderError{Status: 429, Type: "rate_limit_error", Message: "x"},
	},
	{
		name: "K-47 a stream that breaks off", status: 200, header: eventStream, req: streamed(), body: stream(begin),
		want: chat.ProviderError{Status: 502, Type: "truncated", Message: "the answer broke off"},
	},
	{
		name: "another message begins inside the first", status: 200, header: eventStream, req: &chat.Request{Dialect: chat.OpenAI, Stream: true},
		body: stream(begin, begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			strings.Replace(begin, "msg_1", "msg_2", 1), over),
		want: chat.ProviderError{Status: 502, Type: "truncated", Message: "the answer broke off"},
	},
	{
		name: "a stream of nothing", status: 200, header: eventStream, req: streamed(),
		want: chat.ProviderError{Status: 502, Type: "truncated", Message: "the answer broke off"},
	},
	{
		name: "JSON that breaks off", status: 200, header: jsonBody, req: &chat.Request{Dialect: chat.Anthropic}, body: `{"type":"mess`,
		want: chat.ProviderError{Status: 502, Type: "truncated", Message: "the answer broke off"},
	},
	{
		name: "JSON that is no message", status: 200, header: jsonBody, req: &chat.Request{Dialect: chat.Anthropic}, body: `{"object":"list","data":[]}`,
		want: chat.ProviderError{Status: 502, Type: "invalid_response", Message: "the provider's answer has no content", Unusable: true},
	},
	{
		name: "a message of a thread", status: 200, header: jsonBody, req: &chat.Request{Dialect: chat.OpenAI}, body: `{"id":"msg_1","role":"assistant","content":"a"}`,
		want: chat.ProviderError{Status: 502, Type: "invalid_response", Message: "the provider's answer has no content", Unusable: true},
	},
	{
		name: "an error of another server with a good status", status: 200, header: jsonBody, req: &chat.Request{Dialect: chat.Anthropic},
		body: `{"error":{"type":"api_error","message":"x"}}`,
		want: chat.ProviderError{Status: 500, Type: "api_error", Message: "x"},
	},
	{
		name: "an error with a good status", status: 200, header: jsonBody, req: streamed(),
		body: `{"type":"error","error":{"type":"api_error","message":"x"}}`,
		want: chat.ProviderError{Status: 500, Type: "api_error", Message: "x"},
	},
	{
		name: "K-45 a status", status: 429, header: header.List{{Name: "content-type", Value: "text/event-stream"}, {Name: "retry-after", Value: "9"}}, req: streamed(),
		body: `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`,
		want: chat.ProviderError{Status: 429, Type: "rate_limit_error", Message: "slow", RetryAfter: 9},
	},
	{
		name: "a page", status: 502, req: streamed(), body: "<html><title>Bad Gateway</title>" + strings.Repeat("x", 1<<20),
		want: chat.ProviderError{Status: 502, Message: "Bad Gateway"},
	},
}

func TestAnAnswerThatFailsEndsInOneError(t *testing.T) {
	for _, tt := range failureRows {
		t.Run(tt.name, func(t *testing.T) {
			d := message.NewDecoder(tt.req, tt.status, tt.header)
			events := meaning(decodeAll(d, tt.body))
			last := events[len(events)-1]
			if last.kind != chat.Error || last.err != tt.want {
				t.Errorf("got %+v\nwant %+v", last, tt.want)
			}
			for _, e := range events[:len(events)-1] {
				if e.kind == chat.Error || e.kind == chat.End {
					t.Errorf("%+v comes before the error", e)
				}
			}
			if more := d.Decode([]byte(frame(over)), true); len(more) > 0 {
				t.Errorf("%+v follows the error", more)
			}
		})
	}
}

func TestStreamsOfOtherServersAreRead(t *testing.T) {
	tests := []struct {
		name, body string
		want       []event
	}{
		{
			"K-37 no event names, no space, CRLF, and no last blank line",
			"data:{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\r\n\r\ndata:{\"type\":\"message_stop\"}",
			[]event{{kind: chat.Text, text: "a"}, {kind: chat.End}},
		},
		{
			"text in the start of its block", stream(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`, over),
			[]event{{kind: chat.Text, text: "a"}, {kind: chat.End}},
		},
		{
			"events, blocks and reasons that nobody knows",
			stream(`{"type":"news"}`, `{"type":"content_block_start","index":0,"content_block":{"type":"news"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"news","text":"x"}}`, `{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"news"}}`, over),
			[]event{{kind: chat.Extra, id: "news", text: `{"type":"news","text":"x"}`}, {kind: chat.Stop, reason: chat.StopEnd}, {kind: chat.End}},
		},
		{
			"broken JSON and comments pass", ": hi\n\ndata: {\"type\n\n" + frame(over), []event{{kind: chat.Extra, id: "unreadable_event"}, {kind: chat.End}},
		},
		{
			"nothing follows the end", frame(over) + "data: [DONE]\n\n" + frame(begin), []event{{kind: chat.End}},
		},
		{
			"K-39 an event that is too long is lost alone",
			"data: \"" + strings.Repeat("x", 17<<20) + "\"\n\n" + frame(over),
			[]event{{kind: chat.Extra, id: "oversized_event"}, {kind: chat.End}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := meaning(decodeAll(message.NewDecoder(streamed(), 200, nil), tt.body))
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestStopReasonsAreRead(t *testing.T) {
	tests := map[string]chat.StopReason{
		"end_turn": chat.StopEnd, "max_tokens": chat.StopLength, "tool_use": chat.StopTool, "refusal": chat.StopRefusal,
		"pause_turn": chat.StopPause, "model_context_window_exceeded": chat.StopContext, "stop_sequence": chat.StopSequence,
	}
	for reason, want := range tests {
		body := stream(`{"type":"message_delta","delta":{"stop_reason":"`+reason+`","stop_sequence":"END"}}`, over)
		got := decodeAll(message.NewDecoder(streamed(), 200, eventStream), body)
		if got[0].kind != chat.Stop || got[0].reason != want || got[0].text != "END" {
			t.Errorf("%s: got %+v, want %s", reason, got[0], want)
		}
	}
}

const wholeMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a\nb"},{"type":"tool_use","id":"t","name":"f","input":{"a": 1}},{"type":"tool_use","id":"u","name":"g","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4}}`

func TestAJSONAnswerIsReadAsEvents(t *testing.T) {
	want := []event{
		{kind: chat.Start, id: "msg_1", model: "claude-x"},
		{kind: chat.Thought, text: "hm", id: chat.ClaudeThinking},
		{kind: chat.Signature, text: "s", id: chat.ClaudeThinking},
		{kind: chat.BlockStop},
		{kind: chat.Text, index: 1, text: "a\nb"},
		{kind: chat.BlockStop, index: 1},
		{kind: chat.ToolStart, index: 2, tool: chat.ToolCall{ID: "t", Name: "f"}},
		{kind: chat.ToolArgs, index: 2, text: `{"a": 1}`},
		{kind: chat.BlockStop, index: 2},
		{kind: chat.ToolStart, index: 3, tool: chat.ToolCall{ID: "u", Name: "g"}},
		{kind: chat.BlockStop, index: 3},
		{kind: chat.Stop, reason: chat.StopTool},
		{kind: chat.UsageInfo, usage: chat.Usage{Input: 3, Output: 4, Reasoning: 1, ReasoningEstimated: true, Final: true}},
		{kind: chat.End},
	}
	for _, chunks := range [][]string{{wholeMessage}, {wholeMessage, ""}, {wholeMessage[:50], wholeMessage[50:]}} {
		got := decodeAll(message.NewDecoder(&chat.Request{Dialect: chat.Anthropic}, 200, jsonBody), chunks...)
		if !reflect.DeepEqual(meaning(got), want) {
			t.Errorf("got  %+v\nwant %+v", meaning(got), want)
		}
		if got[0].raw != wholeMessage || got[0].span != `"claude-x"` {
			t.Errorf("the first event carries %q, the model at %q", got[0].raw, got[0].span)
		}
	}
}

func TestACountOfTokensIsPassedAndNotMetered(t *testing.T) {
	r := &chat.Request{Dialect: chat.Anthropic, Op: chat.CountTokens}
	got := decodeAll(message.NewDecoder(r, 200, jsonBody), `{"input_tokens":12}`)
	if want := []event{{kind: chat.End, raw: `{"input_tokens":12}`}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBytesPassOnlyInTheRequestedForm(t *testing.T) {
	tests := []struct {
		name   string
		req    chat.Request
		header header.List
		body   string
	}{
		{"a stream for a client that wants JSON", chat.Request{Dialect: chat.Anthropic}, eventStream, longStream},
		{"JSON for a client that wants a stream", chat.Request{Dialect: chat.Anthropic, Stream: true}, jsonBody, wholeMessage},
		{"a client of another dialect", chat.Request{Dialect: chat.OpenAI, Stream: true}, eventStream, longStream},
	}
	for _, tt := range tests {
		for _, e := range decodeAll(message.NewDecoder(&tt.req, 200, tt.header), tt.body) {
			if e.raw != "" || e.tail {
				t.Errorf("%s: got %+v", tt.name, e)
			}
		}
	}
}

func FuzzWhereAnAnswerIsCutChangesNothingK38(f *testing.F) {
	f.Add(longStream, uint8(0), true, uint16(200))
	f.Add(wholeMessage, uint8(7), false, uint16(200))
	f.Add("data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"\\u00e9\"}}\r\n\r\n", uint8(3), true, uint16(200))
	f.Add(`{"error":{"message":"x"}}`, uint8(2), false, uint16(500))
	f.Add(stream(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[{"a":1}]}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location"}}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"compaction","content":"a"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"compaction_delta","content":"b"}}`, `{"type":"content_block_stop","index":1}`, over),
		uint8(3), true, uint16(200))
	f.Fuzz(func(t *testing.T, body string, size uint8, asStream bool, status uint16) {
		h := jsonBody
		if asStream {
			h = eventStream
		}
		read := func(chunks ...string) []event {
			return decodeAll(message.NewDecoder(&chat.Request{Dialect: chat.Anthropic, Stream: asStream}, int(status), h), chunks...)
		}
		whole := read(body)
		var chunks []string
		for rest := body; ; {
			n := min(len(rest), 1+int(size))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
			if rest == "" {
				break
			}
		}
		if got := read(chunks...); !reflect.DeepEqual(got, whole) {
			t.Fatalf("cut %q\ngot  %+v\nwant %+v", chunks, got, whole)
		}
		if n := len(whole); n == 0 || whole[n-1].kind != chat.End && whole[n-1].kind != chat.Error && !whole[n-1].tail {
			t.Fatalf("the answer has no end: %+v", whole)
		}
	})
}

func TestATokenIsDecodedWithoutAllocation(t *testing.T) {
	token := []byte(frame(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello \"there\""}}`))
	d := message.NewDecoder(streamed(), 200, eventStream)
	d.Decode(token, false)
	if n := testing.AllocsPerRun(100, func() { d.Decode(token, false) }); n != 0 {
		t.Errorf("%v allocations for each token", n)
	}
}

func BenchmarkDecodeToken(b *testing.B) {
	token := []byte(frame(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello there"}}`))
	d := message.NewDecoder(streamed(), 200, eventStream)
	b.SetBytes(int64(len(token)))
	b.ReportAllocs()
	for b.Loop() {
		d.Decode(token, false)
	}
}

func BenchmarkDecodeJSON(b *testing.B) {
	body := []byte(strings.Replace(wholeMessage, `a\nb`, strings.Repeat("many words ", 1000), 1))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		message.NewDecoder(&chat.Request{Dialect: chat.Anthropic}, 200, jsonBody).Decode(body, true)
	}
}
