package message_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/sse"
)

func encodeAll(o wire.Options, events ...chat.Event) string {
	enc := message.NewEncoder(o)
	var out []byte
	for i := range events {
		out = enc.Append(out, &events[i])
	}
	return string(out)
}

func piece(kind chat.EventKind, index int, text string) chat.Event {
	return chat.Event{Kind: kind, Index: index, Text: []byte(text)}
}

func toolStart(index int, id, name string) chat.Event {
	return chat.Event{Kind: chat.ToolStart, Index: index, Tool: chat.ToolCall{ID: id, Name: name}}
}

func stopped(r chat.StopReason) chat.Event { return chat.Event{Kind: chat.Stop, Reason: r} }

var (
	started = chat.Event{Kind: chat.Start, ID: "chatcmpl-1", Model: "gpt-x"}
	ended   = chat.Event{Kind: chat.End}
	counted = chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 9, Cached: 4, Output: 5, Final: true}}
)

// brief formats each event of a stream on one line: its type and its content.
func brief(t *testing.T, out string) []string {
	t.Helper()
	var lines []string
	for _, e := range readStream(t, out) {
		switch e.Type {
		case "message_start":
			lines = append(lines, "start "+e.Message.ID+" "+e.Message.Model)
		case "content_block_start":
			lines = append(lines, fmt.Sprintf("%d+ %s", *e.Index, strings.Join(strings.Fields(e.Block.Type+" "+e.Block.ID+" "+e.Block.Name+" "+e.Block.Data), " ")))
		case "content_block_delta":
			lines = append(lines, fmt.Sprintf("%d  %s", *e.Index, e.Delta.Text+e.Delta.Thinking+e.Delta.PartialJSON+e.Delta.Signature))
		case "content_block_stop":
			lines = append(lines, fmt.Sprintf("%d-", *e.Index))
		case "message_delta":
			lines = append(lines, fmt.Sprintf("stop %s %d/%d/%d", e.Delta.StopReason, e.Usage.Input, e.Usage.Cached, e.Usage.Output))
		case "message_stop":
			lines = append(lines, "end")
		}
	}
	return lines
}

// translatedRows are events of other dialects, and the streams that are written for them.
var translatedRows = []struct {
	name   string
	events []chat.Event
	want   string
}{
	{
		"text",
		[]chat.Event{started, piece(chat.Text, 0, "a"), piece(chat.Text, 0, "b"), stopped(chat.StopEnd), counted, ended},
		"start msg_1 shown|0+ text|0  a|0  b|0-|stop end_turn 9/4/5|end",
	},
	{
		"K-06 thinking before text is a block of its own",
		[]chat.Event{started, piece(chat.Thought, 0, "hm"), piece(chat.Signature, 0, "sig"), piece(chat.Text, 1, "a"), stopped(chat.StopEnd), ended},
		"start msg_1 shown|0+ thinking|0  hm|0  sig|0-|1+ text|1  a|1-|stop end_turn 0/0/0|end",
	},
	{
		"a signature alone is thinking that is not shown",
		[]chat.Event{started, piece(chat.Signature, 0, "sig"), piece(chat.BlockStop, 0, ""), piece(chat.Redacted, 1, "xyz"), piece(chat.Text, 2, "a"), ended},
		"start msg_1 shown|0+ thinking|0  sig|0-|1+ redacted_thinking xyz|1-|2+ text|2  a|2-|stop end_turn 0/0/0|end",
	},
	{
		"K-01 parallel tools, interleaved, go out one after the other",
		[]chat.Event{
			started, toolStart(0, "a", "f"), toolStart(1, "b", "g"), piece(chat.ToolArgs, 1, `{"y":`), piece(chat.ToolArgs, 0, `{"x":`),
			piece(chat.ToolArgs, 1, `2}`), piece(chat.ToolArgs, 0, `1}`), stopped(chat.StopTool), counted, ended,
		},
		`start msg_1 shown|0+ tool_use a f|0  {"x":|0  1}|0-|1+ tool_use b g|1  {"y":2}|1-|stop tool_use 9/4/5|end`,
	},
	{
		"a tool that stops makes way for the next",
		[]chat.Event{
			started, toolStart(0, "a", "f"), toolStart(1, "b", "g"), piece(chat.BlockStop, 0, ""), piece(chat.ToolArgs, 1, `{}`),
			stopped(chat.StopTool), ended,
		},
		`start msg_1 shown|0+ tool_use a f|0-|1+ tool_use b g|1  {}|1-|stop tool_use 0/0/0|end`,
	},
	{
		"K-02 all arguments in the last piece",
		[]chat.Event{started, toolStart(0, "a", "f"), piece(chat.ToolArgs, 0, `{"x":1}`), stopped(chat.StopTool), ended},
		`start msg_1 shown|0+ tool_use a f|0  {"x":1}|0-|stop tool_use 0/0/0|end`,
	},
	{
		"K-03 text and a tool",
		[]chat.Event{started, piece(chat.Text, 0, "a"), toolStart(1, "a", "f"), stopped(chat.StopTool), ended},
		"start msg_1 shown|0+ text|0  a|0-|1+ tool_use a f|1-|stop tool_use 0/0/0|end",
	},
	{
		"K-03 a tool alone begins at 0",
		[]chat.Event{started, toolStart(4, "a", "f"), stopped(chat.StopTool), ended},
		"start msg_1 shown|0+ tool_use a f|0-|stop tool_use 0/0/0|end",
	},
	{
		"K-04 a tool without arguments",
		[]chat.Event{started, toolStart(0, "a", "f"), piece(chat.ToolArgs, 0, ""), stopped(chat.StopTool), ended},
		"start msg_1 shown|0+ tool_use a f|0-|stop tool_use 0/0/0|end",
	},
	{
		"K-09 a turn with tools stopped for them",
		[]chat.Event{started, toolStart(0, "a", "f"), stopped(chat.StopEnd), ended},
		"start msg_1 shown|0+ tool_use a f|0-|stop tool_use 0/0/0|end",
	},
	{
		"a refusal is text",
		[]chat.Event{started, piece(chat.Refusal, 0, "no"), stopped(chat.StopEnd), ended},
		"start msg_1 shown|0+ text|0  no|0-|stop refusal 0/0/0|end",
	},
	{
		"text behind an open tool waits for it",
		[]chat.Event{started, toolStart(0, "a", "f"), piece(chat.Text, 1, "t"), piece(chat.ToolArgs, 0, "{}"), stopped(chat.StopTool), ended},
		"start msg_1 shown|0+ tool_use a f|0  {}|0-|1+ text|1  t|1-|stop tool_use 0/0/0|end",
	},
	{
		"arguments of nobody, and a call announced twice",
		[]chat.Event{started, piece(chat.ToolArgs, 7, "{}"), toolStart(0, "a", "f"), toolStart(0, "a", "f"), piece(chat.ToolArgs, 0, "{}"), ended},
		"start msg_1 shown|0+ tool_use a f|0  {}|0-|stop tool_use 0/0/0|end",
	},
	{
		"usage before the reason, and other choices",
		[]chat.Event{counted, started, {Kind: chat.Text, Choice: 1, Text: []byte("x")}, stopped(chat.StopLength), piece(chat.Text, 0, "late"), ended},
		"start msg_1 shown|stop max_tokens 9/4/5|end",
	},
	{"nothing", []chat.Event{ended, ended}, "start msg_1 shown|stop end_turn 0/0/0|end"},
	{"other reasons", []chat.Event{started, stopped(chat.StopPause), ended}, "start msg_1 shown|stop pause_turn 0/0/0|end"},
	{"the window", []chat.Event{started, stopped(chat.StopContext), ended}, "start msg_1 shown|stop model_context_window_exceeded 0/0/0|end"},
	{"a stop sequence that is not named", []chat.Event{started, stopped(chat.StopSequence), ended}, "start msg_1 shown|stop end_turn 0/0/0|end"},
	{
		"a stop sequence that is",
		[]chat.Event{started, {Kind: chat.Stop, Reason: chat.StopSequence, Text: []byte("END")}, ended},
		"start msg_1 shown|stop stop_sequence 0/0/0|end",
	},
}

func TestAStreamForAnotherDialectsAnswer(t *testing.T) {
	for _, tt := range translatedRows {
		t.Run(tt.name, func(t *testing.T) {
			out := encodeAll(wire.Options{Stream: true, Model: "shown", RequestID: "req_1"}, tt.events...)
			if err := wellFormed(readStream(t, out), true); err != nil {
				t.Errorf("%v in %s", err, out)
			}
			if got := strings.Join(brief(t, out), "|"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAStreamBeginsAsClientsExpectK05(t *testing.T) {
	got := encodeAll(wire.Options{Stream: true, Model: "shown", RequestID: "req_1"}, started, started, piece(chat.Text, 0, "a"))
	want := frame(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"shown","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}`) +
		frame(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) +
		frame(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheTerminatorIsAWriteOfItsOwn(t *testing.T) {
	enc := message.NewEncoder(wire.Options{Stream: true})
	for _, ev := range []chat.Event{started, piece(chat.Text, 0, "a"), stopped(chat.StopEnd), counted} {
		enc.Append(nil, &ev)
	}
	if got := string(enc.Append(nil, &ended)); got != frame(`{"type":"message_stop"}`) {
		t.Errorf("got %s", got)
	}
}

func TestTheSameDialectPassesUnchanged(t *testing.T) {
	tests := []struct {
		name, body, model, want string
		stream                  bool
	}{
		{name: "a stream", body: longStream, stream: true, want: longStream},
		{name: "a stream under another name", body: longStream, stream: true, model: "shown", want: strings.Replace(longStream, "claude-x", "shown", 1)},
		{name: "a stream whose last blank line is missing", body: strings.TrimSuffix(longStream, "\n"), stream: true, want: longStream},
		{name: "a stream of CRLFs", body: strings.ReplaceAll(longStream, "\n", "\r\n"), stream: true, want: strings.ReplaceAll(longStream, "\n", "\r\n")},
		{name: "JSON", body: wholeMessage, want: wholeMessage},
		{name: "JSON under another name", body: wholeMessage, model: "shown", want: strings.Replace(wholeMessage, "claude-x", "shown", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := relay(tt.body, tt.stream, tt.stream, tt.model, len(tt.body)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// relay decodes a provider's answer in pieces and encodes it for a client.
func relay(body string, comesAsStream, wantsStream bool, model string, size int) string {
	h := jsonBody
	if comesAsStream {
		h = eventStream
	}
	dec := message.NewDecoder(&chat.Request{Dialect: chat.Anthropic, Stream: wantsStream}, 200, h)
	enc := message.NewEncoder(wire.Options{Same: true, Stream: wantsStream, Model: model})
	var out []byte
	for end := false; !end; {
		n := min(size, len(body))
		chunk := []byte(body[:n])
		body = body[n:]
		end = body == ""
		for _, ev := range dec.Decode(chunk, end) {
			out = enc.Append(out, &ev)
		}
	}
	return string(out)
}

func FuzzTheSameDialectsStreamPassesUnchanged(f *testing.F) {
	f.Add(longStream, uint8(3))
	f.Add(": hi\n\ndata: x\n\n"+frame(over), uint8(0))
	f.Add(": hi\r\rdata: x", uint8(1))
	f.Fuzz(func(t *testing.T, body string, size uint8) {
		got := relay(body, true, true, "", 1+int(size))
		events := decodeAll(message.NewDecoder(streamed(), 200, eventStream), body)
		var sent strings.Builder
		for _, e := range events {
			sent.WriteString(e.raw)
		}
		if !strings.HasPrefix(body+"\n\n", sent.String()) {
			t.Fatalf("got %q\nfor %q", got, body)
		}
		if !strings.HasPrefix(got, sent.String()) || len(got) > sent.Len()+2 {
			t.Fatalf("got %q\nfor %q", got, sent.String())
		}
	})
}

func TestAnAnswerInTheOtherFormIsWrittenAnew(t *testing.T) {
	out := relay(wholeMessage, false, true, "shown", 100)
	want := `start msg_1 shown|0+ thinking|0  hm|0  s|0-|1+ text|1  a` + "\n" + `b|1-|2+ tool_use t f|2  {"a": 1}|2-|3+ tool_use u g|3-|stop tool_use 3/0/4|end`
	if got := strings.Join(brief(t, out), "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got := relay(longStream, true, false, "", 100)
	want = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"let me \"see\"","signature":"sig"},{"type":"redacted_thinking","data":"opaque"},{"type":"text","text":"Hé\n"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}},{"type":"server_tool_use","id":"srv","name":"web_search","input":{}},{"type":"tool_use","id":"toolu_2","name":"g","input":{"b":2}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":5,"cache_read_input_tokens":3,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":4},"output_tokens":30}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAJSONAnswerOfAnotherDialect(t *testing.T) {
	tests := []struct {
		name          string
		events        []chat.Event
		content, stop string
	}{
		{"text", []chat.Event{started, piece(chat.Text, 0, "a"), piece(chat.Text, 0, "b"), stopped(chat.StopEnd)}, `{"type":"text","text":"ab"}`, `"end_turn","stop_sequence":null`},
		{"nothing", nil, ``, `"end_turn","stop_sequence":null`},
		{
			"tools, interleaved, without and with broken arguments",
			[]chat.Event{
				started, toolStart(0, "a", "f"), toolStart(1, "b", "g"), piece(chat.ToolArgs, 1, `{"y"`), piece(chat.ToolArgs, 0, `{"x":1}`),
				toolStart(2, "c", "h"), stopped(chat.StopLength),
			},
			`{"type":"tool_use","id":"a","name":"f","input":{"x":1}},{"type":"tool_use","id":"b","name":"g","input":{"INVALID_JSON":"{\"y\""}},{"type":"tool_use","id":"c","name":"h","input":{}}`,
			`"max_tokens","stop_sequence":null`,
		},
		{
			"a stop sequence",
			[]chat.Event{started, piece(chat.Text, 0, "a"), {Kind: chat.Stop, Reason: chat.StopSequence, Text: []byte("X")}},
			`{"type":"text","text":"a"}`, `"stop_sequence","stop_sequence":"X"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := encodeAll(wire.Options{Model: "shown", RequestID: "req_1"}, append(tt.events, counted, ended, ended)...)
			want := `{"id":"msg_1","type":"message","role":"assistant","model":"shown","content":[` + tt.content + `],"stop_reason":` + tt.stop +
				`,"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5}}`
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestAnErrorInsideAStreamEndsIt(t *testing.T) {
	enc := message.NewEncoder(wire.Options{Stream: true, RequestID: "req_1"})
	got := string(enc.Error(nil, fault.New(fault.UpstreamTimeout, "too slow", nil)))
	want := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"too slow\",\"code\":\"upstream_timeout\"},\"request_id\":\"req_1\"}\n\n"
	if got != want {
		t.Errorf("got %s", got)
	}
	if more := enc.Append(nil, &ended); len(more) > 0 {
		t.Errorf("%s follows the error", more)
	}
}

// wireEvent is an event of the stream as a client parses it.
type wireEvent struct {
	Type    string
	Index   *int
	Message struct {
		ID, Model string
		Content   []json.RawMessage
		Usage     *struct{}
	}
	Block struct {
		Type, ID, Name, Data string
		Input                map[string]any
	} `json:"content_block"`
	Delta struct {
		Type, Text, Thinking, Signature string
		PartialJSON                     string `json:"partial_json"`
		StopReason                      string `json:"stop_reason"`
	}
	Usage *struct {
		Input  int `json:"input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
		Output int `json:"output_tokens"`
	}
}

func readStream(t testing.TB, out string) []wireEvent {
	t.Helper()
	var events []wireEvent
	var s sse.Scanner
	for _, f := range s.Next([]byte(out)) {
		var e wireEvent
		if err := json.Unmarshal(f.Data, &e); err != nil {
			t.Fatalf("%s: %v", f.Raw, err)
		}
		if string(f.Event) != e.Type {
			t.Fatalf("event %s holds a %s", f.Event, e.Type)
		}
		events = append(events, e)
	}
	if rest := s.End(); len(rest) > 0 {
		t.Fatalf("%q is not a complete event", rest[0].Raw)
	}
	return events
}

// wellFormed checks what clients rely on: one message_start with usage and an empty list of content, sequential blocks with ascending
// indices and deltas of their own kind, then message_delta and message_stop.
func wellFormed(events []wireEvent, complete bool) error {
	accepts := map[string]string{
		"text": "text_delta", "thinking": "thinking_delta signature_delta", "tool_use": "input_json_delta", "redacted_thinking": "none",
	}
	open, next, phase := "", 0, "before"
	for i, e := range events {
		bad := func(why string) error { return fmt.Errorf("event %d, %s: %s", i, e.Type, why) }
		at := func(want int) bool { return e.Index != nil && *e.Index == want }
		if (phase == "before") != (e.Type == "message_start") {
			return bad("the stream begins with one message_start")
		}
		if phase == "finished" && e.Type != "message_stop" || phase == "over" {
			return bad("comes after the message's end")
		}
		switch e.Type {
		case "message_start":
			if e.Message.Usage == nil || e.Message.Content == nil || len(e.Message.Content) > 0 || e.Message.ID == "" {
				return bad("lacks usage, content or id")
			}
			phase = "content"
		case "content_block_start":
			if open != "" || !at(next) || accepts[e.Block.Type] == "" {
				return bad("another block is open, the index is wrong, or the kind is unknown")
			}
			if e.Block.Type == "tool_use" && (e.Block.Input == nil || len(e.Block.Input) > 0) {
				return bad("a tool begins with an empty input")
			}
			open = e.Block.Type
		case "content_block_delta":
			if open == "" || !at(next) || !strings.Contains(accepts[open], e.Delta.Type) {
				return bad("belongs to no open block, or not to a " + open)
			}
		case "content_block_stop":
			if open == "" || !at(next) {
				return bad("no such block is open")
			}
			open = ""
			next++
		case "message_delta":
			if open != "" || e.Delta.StopReason == "" || e.Usage == nil {
				return bad("a block is open, or the reason or usage is missing")
			}
			phase = "finished"
		case "message_stop":
			if phase != "finished" {
				return bad("message_delta is missing")
			}
			phase = "over"
		default:
			return bad("is unknown")
		}
	}
	if complete && phase != "over" {
		return fmt.Errorf("the stream stops at %q", phase)
	}
	return nil
}

// FuzzEveryAnswerIsAWellFormedStream generates events from bytes, so that any sequence may occur.
func FuzzEveryAnswerIsAWellFormedStream(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 6, 1, 7, 1, 6, 2, 7, 1, 7, 2, 9, 0, 10, 0, 12, 0})
	f.Add([]byte{2, 0, 3, 0, 1, 1, 5, 1, 8, 1, 6, 0, 6, 16, 7, 0, 12, 0, 1, 0})
	f.Add([]byte{6, 0, 1, 0, 6, 0, 4, 0, 10, 0, 9, 0, 7, 0, 1, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		events := make([]chat.Event, 0, len(script)/2+1)
		for i := 0; i+1 < len(script); i += 2 {
			arg := int(script[i+1])
			events = append(events, chat.Event{
				Kind: chat.EventKind(script[i] % 15), Index: arg % 4, Choice: arg >> 7, Text: []byte("\"é\x00<"[:arg>>5&3]),
				ID: "id", Model: "m", Tool: chat.ToolCall{ID: string('a' + rune(arg>>4&1)), Name: "f"}, Reason: chat.StopReason("end"),
				Usage: chat.Usage{Output: int64(arg), Final: arg&8 > 0},
			})
		}
		out := encodeAll(wire.Options{Stream: true, RequestID: "req_1"}, events...)
		if err := wellFormed(readStream(t, out), false); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out = encodeAll(wire.Options{Stream: true, RequestID: "req_1"}, append(events, ended)...)
		if err := wellFormed(readStream(t, out), true); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out = encodeAll(wire.Options{RequestID: "req_1"}, append(events, ended)...); !json.Valid([]byte(out)) {
			t.Fatalf("not JSON: %s", out)
		}
	})
}

func TestATokenIsEncodedWithoutAllocation(t *testing.T) {
	enc := message.NewEncoder(wire.Options{Stream: true})
	token := piece(chat.Text, 0, "Hello there")
	dst := enc.Append(make([]byte, 0, 4096), &token)
	if n := testing.AllocsPerRun(100, func() { enc.Append(dst[:0], &token) }); n != 0 {
		t.Errorf("%v allocations for each token", n)
	}
}

func BenchmarkEncodeToken(b *testing.B) {
	enc := message.NewEncoder(wire.Options{Stream: true})
	token := piece(chat.Text, 0, "Hello there")
	dst := enc.Append(make([]byte, 0, 4096), &token)
	b.ReportAllocs()
	for b.Loop() {
		enc.Append(dst[:0], &token)
	}
}

// TestAStreamStartsWithTheEstimatedInput: providers of other formats report their usage at the end. A report that is there already counts, and
// what the end has is only what was reported.
func TestAStreamStartsWithTheEstimatedInput(t *testing.T) {
	text := piece(chat.Text, 0, "Hello")
	usage := chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 30, Cached: 5, Output: 2, Final: true}}
	for _, row := range []struct {
		name   string
		events []chat.Event
		same   bool
		want   string
	}{
		{"no report", []chat.Event{text}, false, `"usage":{"input_tokens":1234,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`},
		{"a report at the start", []chat.Event{usage, text}, false, `"usage":{"input_tokens":30,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"output_tokens":2}`},
		{"its own format", []chat.Event{text}, true, `"usage":{"input_tokens":0,`},
	} {
		enc := message.NewEncoder(wire.Options{Stream: true, Same: row.same, Request: &chat.Request{InputTokens: 1234}})
		var out []byte
		for i := range row.events {
			out = enc.Append(out, &row.events[i])
		}
		if !strings.Contains(string(out), row.want) {
			t.Errorf("%s: %s", row.name, out)
		}
		end := len(out)
		for _, ev := range []chat.Event{usage, {Kind: chat.Stop, Reason: chat.StopEnd}, {Kind: chat.End}} {
			out = enc.Append(out, &ev)
		}
		if rest := string(out[end:]); !strings.Contains(rest, `"usage":{"input_tokens":30,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,`) {
			t.Errorf("%s ends with %s", row.name, rest)
		}
	}
}

// TestAPromptThatIsTooLongIsCalledSo: Claude Code compacts a conversation by Anthropic's message.
func TestAPromptThatIsTooLongIsCalledSo(t *testing.T) {
	for said, want := range map[string]string{
		"This model's maximum context length is 8192 tokens.": "prompt is too long: This model's maximum context length is 8192 tokens.",
		"Prompt is too long": "Prompt is too long",
		"input length and `max_tokens` exceed context limit: 9 + 2 > 10": "input length and `max_tokens` exceed context limit: 9 + 2 > 10",
	} {
		got := string(message.AppendError(nil, &fault.Fault{Kind: fault.InvalidRequest, Public: said, Code: "context_length_exceeded"}, ""))
		if !strings.Contains(got, `"message":"`+want+`"`) {
			t.Errorf("%s is sent as %s", said, got)
		}
	}
	if got := string(message.AppendError(nil, &fault.Fault{Kind: fault.InvalidRequest, Public: "wrong", Code: "other"}, "")); !strings.Contains(got, `"message":"wrong"`) {
		t.Errorf("another error is sent as %s", got)
	}
}
