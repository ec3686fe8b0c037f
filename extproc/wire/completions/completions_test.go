package completions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/sse"
)

func TestTheFormatIsDetectedFromTheBody(t *testing.T) {
	tests := []struct {
		name, body string
		want       chat.Dialect
	}{
		{"messages", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, chat.OpenAI},
		{"a prompt", `{"model":"m","prompt":"hi"}`, chat.Completions},
		{"a prompt beside messages", `{"model":"m","prompt":"hi","messages":[]}`, chat.OpenAI},
		{"a system prompt at the top", `{"model":"m","system":"be brief","messages":[]}`, chat.Anthropic},
		{"no system prompt", `{"model":"m","system":null,"messages":[]}`, chat.OpenAI},
		{"the other format's stop", `{"model":"m","stop_sequences":["x"],"messages":[]}`, chat.Anthropic},
		{"an Anthropic tool", `{"model":"m","tools":[{"name":"f","input_schema":{}}],"messages":[]}`, chat.Anthropic},
		{"an OpenAI tool", `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[]}`, chat.OpenAI},
		{"a tool's result as a block", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}]}`, chat.Anthropic},
		{"an Anthropic image", `{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{}}]}]}`, chat.Anthropic},
		{"an OpenAI image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`, chat.OpenAI},
		{"text blocks, which both have", `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, chat.OpenAI},
		{"nothing", `{}`, chat.Completions},
		{"no JSON", `{"prompt"`, chat.OpenAI},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := completions.Detect([]byte(tt.body)); got != tt.want {
				t.Errorf("format is %s, want %s", got, tt.want)
			}
		})
	}
}

func decode(body string) (*chat.Request, error) {
	return completions.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
}

func TestAPromptBecomesTheUsersTurn(t *testing.T) {
	r, err := decode(`{"model":"m","prompt":["Say \"hi\""],"max_tokens":7,"temperature":0.30,"echo":false,"best_of":2,"suffix":"","logprobs":null,"n":2,"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if r.Dialect != chat.Completions || r.Choices != 2 || r.Prompts != 1 || !r.Edit.Empty() {
		t.Errorf("read as %+v", r)
	}
	if r, err = r.In(chat.Anthropic); err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","max_tokens":7,"temperature":0.30,"n":2,"stream":true,"messages":[{"role":"user","content":"Say \"hi\""}]}`
	if got := string(r.Edit.AppendTo(nil, &r.Doc)); got != want {
		t.Errorf("the request is\n%s\nwant\n%s", got, want)
	}
	if r.Dialect != chat.OpenAI || r.MaxTokens != 7 || r.Choices != 2 || !r.Stream {
		t.Errorf("read as %+v", r)
	}
	if len(r.Dropped) != 0 {
		t.Errorf("degraded %s", r.Dropped)
	}
	c, err := r.Conversation()
	if err != nil || len(c.Messages) != 1 || c.Messages[0].Parts[0].Text != `Say "hi"` {
		t.Errorf("the conversation is %+v, %v", c, err)
	}
}

func TestPromptsThatCannotBeServed(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","prompt":""}`:                  "must not be empty",
		`{"model":"m","prompt":[]}`:                  "must not be empty",
		`{"model":"m","prompt":[[],""]}`:             "must not be empty",
		`{"model":"m","prompt":7}`:                   "must be a string or an array, not a number",
		`{"model":"m","prompt":null}`:                "prompt is required, or messages",
		`{"model":"m","prompt":"a","best_of":0}`:     "best_of must be an integer",
		`{"model":"m","prompt":"a","best_of":129}`:   "best_of must be an integer",
		`{"model":"m","prompt":"a","n":1000}`:        "n must be an integer",
		`{"model":"m","prompt":"a","max_tokens":-1}`: "max_tokens must be a positive integer",
		`{"model":"m"}`:                              "prompt is required, or messages",
		`{"prompt":"a"}`:                             "model is required",
		`{"model":"m","prompt":"a"`:                  "not valid JSON",
	} {
		_, err := decode(body)
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.InvalidRequest || !strings.Contains(f.Public, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestEveryAnswerThatIsWrittenIsReserved: also discarded ones, for each prompt, including those given as vectors.
func TestEveryAnswerThatIsWrittenIsReserved(t *testing.T) {
	for body, want := range map[string]int{
		`"prompt":"a"`:                               1,
		`"prompt":"a","n":3`:                         3,
		`"prompt":"a","n":2,"best_of":5`:             5,
		`"prompt":["a","b"],"n":2,"best_of":3`:       6,
		`"prompt":[[1],[2],[3]],"n":2`:               6,
		`"prompt":"a","prompt_embeds":"AA"`:          2,
		`"prompt":["a"],"prompt_embeds":["A","B"]`:   3,
		`"prompt":"a","best_of":2,"prompt_embeds":1`: 2,
	} {
		if r, err := decode(`{"model":"m",` + body + `}`); err != nil || r.Choices != want {
			t.Errorf("%s: %d answers, want %d (%v)", body, r.Choices, want, err)
		}
	}
}

func TestMembersThatAConversationCannotExpress(t *testing.T) {
	for body, member := range map[string]string{
		`{"model":"m","prompt":["a","b"]}`:             "prompt",
		`{"model":"m","prompt":[1,2]}`:                 "prompt",
		`{"model":"m","prompt":[[1,2]]}`:               "prompt",
		`{"model":"m","prompt":"a","suffix":"b"}`:      "suffix",
		`{"model":"m","prompt":"a","echo":true}`:       "echo",
		`{"model":"m","prompt":"a","logprobs":0}`:      "logprobs",
		`{"model":"m","prompt":"a","best_of":2}`:       "best_of",
		`{"model":"m","prompt":"a","n":2,"best_of":3}`: "best_of",
	} {
		r, err := decode(body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if same, err := r.In(chat.Completions); same != r || err != nil {
			t.Errorf("%s is not sent as it came: %v", body, err)
		}
		_, err = r.In(chat.OpenAI)
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.InvalidRequest || f.Param != member {
			t.Errorf("%s: %v, want a word about %s", body, err, member)
		}
	}
}

// FuzzACompletionPassesUnchanged: wherever a stream or a body is cut, the client gets its bytes unchanged.
func FuzzACompletionPassesUnchanged(f *testing.F) {
	const piece = `data: {"id":"cmpl-1","object":"text_completion","choices":[{"text":"a\u00e9","index":0,"logprobs":{"tokens":["a"]},"finish_reason":%s}],"model":"m"}` + "\n\n"
	stream := strings.Replace(piece, "%s", "null", 1) + strings.Replace(piece, "%s", `"stop"`, 1) + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n"
	f.Add([]byte(stream), 50, true)
	f.Add([]byte(`{"choices":[{"text":"a","index":0,"finish_reason":"length"}],"model":"m","usage":{"prompt_tokens":1,"completion_tokens":1}}`), 9, false)
	f.Add([]byte("data:{\"choices\":[{\"finish_reason\":\"\"}]}\n\n0"), 1, true)
	f.Fuzz(func(t *testing.T, body []byte, cut int, stream bool) {
		cut = max(0, min(cut, len(body)))
		req := &chat.Request{Dialect: chat.Completions, Stream: stream, StreamUsage: true, Prompts: 1}
		d := completions.NewDecoder(req, 200, nil)
		enc := completions.Dialect{}.NewEncoder(wire.Options{Same: true, Stream: stream, ShowUsage: true, Request: req})
		var out []byte
		for i, part := range [][]byte{body[:cut], body[cut:]} {
			events := d.Decode(part, i == 1)
			for k := range events {
				if events[k].Kind == chat.Error {
					return
				}
				out = enc.Append(out, &events[k])
			}
		}
		if stream {
			var whole []byte // a stream that ends without its terminator gets one, in place of a frame that is not complete
			var s sse.Scanner
			for _, frame := range s.Next(body) {
				whole = append(whole, frame.Raw...)
			}
			if !bytes.HasPrefix(body, out) && !bytes.HasPrefix(out, whole) { // what follows the end is omitted
				t.Errorf("%q became %q", body, out)
			}
			return
		}
		if !bytes.Equal(out, body) {
			t.Errorf("%q became %q", body, out)
		}
	})
}

// answer has two choices, and a thought, which the format cannot express.
var answer = []chat.Event{
	{Kind: chat.Start, ID: "x", Model: "upstream"},
	{Kind: chat.Thought, Text: []byte("hm")},
	{Kind: chat.Text, Text: []byte("Hel"), Raw: []byte("the provider's own bytes")},
	{Kind: chat.Text, Text: []byte("lo"), Tail: true},
	{Kind: chat.Text, Choice: 1, Text: []byte("Ho")},
	{Kind: chat.Stop, Reason: chat.StopEnd},
	{Kind: chat.Stop, Choice: 1, Reason: chat.StopLength},
	{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 3, Cached: 2, Output: 4, Final: true}},
	{Kind: chat.End},
}

func encode(o wire.Options) (string, wire.Encoder) {
	enc := completions.Dialect{}.NewEncoder(o)
	var out []byte
	for i := range answer {
		out = enc.Append(out, &answer[i])
	}
	return string(out), enc
}

func TestAnAnswerIsText(t *testing.T) {
	o := wire.Options{Same: true, Model: "m", RequestID: "req_1", Created: 9, ShowUsage: true}
	got, enc := encode(o)
	const want = `{"id":"cmpl-1","object":"text_completion","created":9,"model":"m","choices":[` +
		`{"text":"Hello","index":0,"logprobs":null,"finish_reason":"stop"},{"text":"Ho","index":1,"logprobs":null,"finish_reason":"length"}],` +
		`"usage":{"prompt_tokens":5,"completion_tokens":4,"total_tokens":9}}`
	if got != want {
		t.Errorf("body\n%s\nwant\n%s", got, want)
	}
	if l, ok := enc.(interface{ Degraded() []string }); !ok || strings.Join(l.Degraded(), ",") != "thinking" {
		t.Error("the thought was lost silently")
	}
}

func TestAStreamIsPiecesOfText(t *testing.T) {
	got, _ := encode(wire.Options{Same: true, Stream: true, Model: "m", RequestID: "req_1", Created: 9, ShowUsage: true})
	frames := strings.Split(strings.TrimSuffix(got, "\n\n"), "\n\n")
	var text string
	for _, f := range frames[:len(frames)-1] {
		var c struct {
			Object  string
			Choices []struct {
				Text  string
				Index int
			}
			Usage *struct{}
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(f, "data: ")), &c); err != nil || c.Object != "text_completion" {
			t.Fatalf("frame %s: %v", f, err)
		}
		for _, ch := range c.Choices {
			text += strings.Repeat(">", ch.Index) + ch.Text
		}
	}
	if text != "Hello>Ho>" || frames[len(frames)-1] != "data: [DONE]" || !strings.Contains(got, `"choices":[],"usage":{`) {
		t.Errorf("text %q in\n%s", text, got)
	}
}

func TestAnErrorInAStreamHasOpenAIsFormat(t *testing.T) {
	enc := completions.Dialect{}.NewEncoder(wire.Options{Stream: true, RequestID: "req_1"})
	if got := string(enc.Error(nil, fault.Newf(fault.Upstream, "it broke"))); !strings.HasPrefix(got, `data: {"error":{"message":"it broke"`) {
		t.Errorf("error frame %s", got)
	}
}

func FuzzAnyBodyIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":["a"],"echo":true}`))
	f.Add([]byte(`{"prompt":{"a":1},"messages":[{"content":[{"type":"image"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		completions.Detect(body)
		r, err := completions.Dialect{}.Decode(chat.Generate, nil, "", body)
		if err != nil {
			if _, ok := errors.AsType[*fault.Fault](err); !ok {
				t.Errorf("%q: %v is no fault", body, err)
			}
			return
		}
		if out := r.Edit.AppendTo(nil, &r.Doc); !json.Valid(out) {
			t.Errorf("%q became %q", body, out)
		}
	})
}
