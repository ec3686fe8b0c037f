package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

func TestDecodedRequest(t *testing.T) {
	r, err := Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","input":[{"type":"item\u005freference","id":"x"}],
		"stream":true,"max_output_tokens":9,"reasoning":{"effort":"high"},"background":true,"conversation":"c","bardo":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Dialect != chat.Responses || !r.Stream || r.MaxTokens != 9 || !r.Thinking || !r.HighEffort || r.Choices != 1 {
		t.Errorf("read as %+v", r)
	}
	var needs []string
	for _, n := range r.Needs {
		if n.Feature != policy.ResponsesAPI {
			t.Errorf("needs %s", n.Feature)
		}
		needs = append(needs, n.Member)
	}
	if got := strings.Join(needs, " "); got != "input[0] background conversation" {
		t.Errorf("needs %s", got)
	}
	if out := r.Edit.AppendTo(nil, &r.Doc); bytes.Contains(out, []byte("bardo")) {
		t.Errorf("the hints stay: %s", out)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ body, param, contains string }{
		{`{"model":`, "", "not valid JSON"},
		{`{"input":"x"}`, "model", "model is required"},
		{`{"model":1,"input":"x"}`, "model", "a string"},
		{`{"model":"m"}`, "input", "input is required"},
		{`{"model":"m","input":{}}`, "input", "a string or an array"},
		{`{"model":"m","input":"x","stream":"yes"}`, "stream", "a boolean"},
		{`{"model":"m","input":"x","max_output_tokens":0}`, "max_output_tokens", "positive integer"},
		{`{"model":"m","input":"x","reasoning":"high"}`, "reasoning", "an object"},
		{`{"model":"m","input":"x","reasoning":{"effort":1}}`, "reasoning.effort", "a string"},
	} {
		_, err := Dialect{}.Decode(chat.Generate, nil, "", []byte(tt.body))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.InvalidRequest || f.Param != tt.param || !strings.Contains(f.Public, tt.contains) {
			t.Errorf("%s: %v, want %q about %s", tt.body, err, tt.contains, tt.param)
		}
	}
}

func TestConversationsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ body, param string }{
		{`"input":[1]`, "input[0]"},
		{`"input":[{"type":1}]`, "input[0].type"},
		{`"input":[{}]`, "input[0].type"},
		{`"input":[{"role":"user","content":1}]`, "input[0].content"},
		{`"input":[{"role":"user","content":[{"type":"input_text"}]}]`, "input[0].content[0].text"},
		{`"input":[{"role":"user","content":[{"type":"input_image"}]}]`, "input[0].content[0]"},
		{`"input":[{"type":"function_call","name":"f"}]`, "input[0].call_id"},
		{`"input":[{"type":"function_call","call_id":"c","name":""}]`, "input[0].name"},
		{`"input":[{"type":"function_call_output","call_id":"c"}]`, "input[0].output"},
		{`"input":"x","tools":{}`, "tools"},
		{`"input":"x","tools":[{"type":"function"}]`, "tools[0].name"},
		{`"input":"x","tools":[{"type":"function","name":"f","parameters":[]}]`, "tools[0].parameters"},
		{`"input":"x","tool_choice":"maybe"`, "tool_choice"},
		{`"input":"x","tool_choice":{"type":"function"}`, "tool_choice.name"},
		{`"input":"x","text":{"format":{"type":"json_schema"}}`, "text.format.schema"},
		{`"input":"x","include":"all"`, "include"},
		{`"input":"x","temperature":"hot"`, "temperature"},
		{`"input":"x","instructions":[]`, "instructions"},
	} {
		r, err := Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m",`+tt.body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Conversation()
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.InvalidRequest || f.Param != tt.param {
			t.Errorf("%s: %v, want a fault about %s", tt.body, err, tt.param)
		}
	}
}

func FuzzAnyBodyIsReadOrRefused(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","input":"x"}`, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_data":"x"}]}]}`,
		`{"model":"m","input":[{"type":"reasoning","id":"rs_bardo_1_0","encrypted_content":"bardo-thinking-1.e30"},{"type":"x"}],"tools":[{"type":"custom","name":"a"}]}`,
		codexTools,
		`{"model":"m","input":[{"type":"reasoning","id":"rs_bardo_1"} , {"type":"reasoning","id":"rs_bardo_2"},{}, {"type":"reasoning","id":"rs_bardo_3"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Dialect{}.Decode(chat.Generate, nil, "", body)
		if err == nil {
			out, _, err := EncodeRequest(nil, r, RequestOptions{Model: "up"})
			if err != nil || !json.Valid(out) {
				t.Fatalf("%q became %q, %v", body, out, err)
			}
			if v, err := jsonx.Parse(out); err != nil || hasOurs(v.Get("input")) {
				t.Fatalf("%q keeps what is ours: %q, %v", body, out, err)
			}
			_, err = r.Conversation()
			if err == nil {
				return
			}
		}
		if _, ok := errors.AsType[*fault.Fault](err); err != nil && !ok {
			t.Errorf("%q: %v is no fault", body, err)
		}
	})
}

func hasOurs(input jsonx.Value) bool {
	for _, item := range input.Each {
		if item.Get("type").Equal("reasoning") && isFromGateway(item) {
			return true
		}
	}
	return false
}

func TestACallOfTheSameDialect(t *testing.T) {
	for op, path := range map[chat.Op]string{chat.Generate: "/v1/responses", chat.CountTokens: "/v1/responses/input_tokens"} { //nolint:exhaustive // it has no embeddings
		r, err := Dialect{}.Decode(op, nil, "", []byte(`{"model":"m","input":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		call, err := NewCall(nil, r, provider.Endpoint{BasePath: "/v1", Key: secret.New("k")}, RequestOptions{Model: "up"})
		if err != nil || call.Path != path || call.Header.Get("authorization") != "Bearer k" || string(call.Body) != `{"model":"up","input":"x"}` {
			t.Errorf("%+v %v", call, err)
		}
	}
}

func TestTokensOfAnotherFormatAreNotCounted(t *testing.T) {
	if _, _, err := EncodeRequest(nil, &chat.Request{Dialect: chat.OpenAI, Op: chat.CountTokens}, RequestOptions{}); err == nil {
		t.Error("no error")
	}
}

func eventStream() header.List {
	return header.List{{Name: "content-type", Value: "text/event-stream"}}
}

const upstream = `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"up","status":"in_progress","output":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi"}

event: response.completed
data: {"type":"response.completed","sequence_number":2,"response":{"id":"resp_1","model":"up","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":1}}}

`

// TestTheTerminatorComesWithTheEnd: what the gateway adds at the end of a stream directly precedes the terminator.
func TestTheTerminatorComesWithTheEnd(t *testing.T) {
	d := NewDecoder(&chat.Request{Dialect: chat.Responses, Stream: true}, 200, eventStream())
	e := Dialect{}.NewEncoder(wire.Options{Same: true, Stream: true, Model: "shown", RequestID: "req_1"})
	var before, end []byte
	for _, ev := range d.Decode([]byte(upstream), true) {
		if ev.Kind == chat.End {
			end = e.Append(end, &ev)
			continue
		}
		before = e.Append(before, &ev)
	}
	if bytes.Contains(before, []byte("response.completed")) || !bytes.HasPrefix(end, []byte("event: response.completed\n")) {
		t.Errorf("before the end:\n%s\nthen\n%s", before, end)
	}
	if want := strings.ReplaceAll(upstream, `"model":"up"`, `"model":"shown"`); string(before)+string(end) != want {
		t.Errorf("%s%s\nwant\n%s", before, end, want)
	}
}

func TestK31AFailedResponseCountsItsUsage(t *testing.T) {
	for _, stream := range []bool{true, false} {
		body := `{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"boom"},"output":[],"usage":{"input_tokens":30,"output_tokens":7}}`
		h := header.List{{Name: "content-type", Value: "application/json"}}
		if stream {
			body, h = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":"+body+"}\n\n", eventStream()
		}
		events := NewDecoder(&chat.Request{Dialect: chat.Responses, Stream: stream}, 200, h).Decode([]byte(body), true)
		n := len(events)
		if n != 2 || events[0].Kind != chat.UsageInfo || events[0].Usage.Input != 30 || events[0].Usage.Output != 7 || !events[0].Usage.Final ||
			events[1].Kind != chat.Error || events[1].Err.Status != 500 {
			t.Errorf("stream=%v: %+v", stream, events)
		}
	}
}

func TestAFailedStreamHasAnErrorAndAFailedResponse(t *testing.T) {
	f := &fault.Fault{Kind: fault.Upstream, Public: "it broke", Param: "p"}
	e := Dialect{}.NewEncoder(wire.Options{Stream: true, RequestID: "req_1", Model: "m"})
	if got := string(e.Error(nil, f)); strings.Contains(got, "response.failed") || !strings.HasPrefix(got, "event: error\n") {
		t.Errorf("before it began: %s", got)
	}
	e = Dialect{}.NewEncoder(wire.Options{Stream: true, RequestID: "req_1", Model: "m"})
	out := e.Append(nil, &chat.Event{Kind: chat.Text, Text: []byte("so far")})
	frames := strings.SplitAfter(string(e.Error(out, f)), "\n\n")
	frames = frames[len(frames)-3:]
	var raised struct {
		Type, Code, Message, Param string
		Error                      struct{ Type, Code, Message string }
	}
	var emitted struct {
		Type     string
		Response struct {
			Status string
			Error  struct{ Code, Message string }
			Output []struct{ Status string }
		}
	}
	for i, into := range []any{&raised, &emitted} {
		_, data, _ := strings.Cut(frames[i], "data: ")
		if err := json.Unmarshal([]byte(data), into); err != nil {
			t.Fatalf("%v: %s", err, frames[i])
		}
	}
	if raised.Type != "error" || raised.Code != "upstream_error" || raised.Message != "it broke" || raised.Error.Type != "api_error" || raised.Param != "p" {
		t.Errorf("%+v", raised)
	}
	if r := emitted.Response; emitted.Type != "response.failed" || r.Status != "failed" || r.Error.Code != "server_error" || r.Error.Message != "it broke" || len(r.Output) != 1 || r.Output[0].Status != "incomplete" {
		t.Errorf("%+v", emitted)
	}
}

func TestAFailedResponseSaysWhyInOpenAIsWords(t *testing.T) {
	for want, f := range map[string]*fault.Fault{
		"server_error": {Kind: fault.Overloaded}, "rate_limit_exceeded": {Kind: fault.RateLimited}, "invalid_prompt": {Kind: fault.GuardrailRefused}, "context_length_exceeded": {Kind: fault.Upstream, Code: "context_length_exceeded"},
	} {
		if got := failureCode(f); got != want {
			t.Errorf("%s: %s, want %s", f.Kind, got, want)
		}
	}
}

func TestACountPasses(t *testing.T) {
	d := NewDecoder(&chat.Request{Dialect: chat.Responses, Op: chat.CountTokens}, 200, header.List{{Name: "content-type", Value: "application/json"}})
	const body = `{"object":"response.input_tokens","input_tokens":12}`
	e := Dialect{}.NewEncoder(wire.Options{Same: true})
	var out []byte
	for _, ev := range d.Decode([]byte(body), true) {
		out = e.Append(out, &ev)
	}
	if string(out) != body {
		t.Errorf("got %s", out)
	}
}

func TestTooManyItemsAreAnError(t *testing.T) {
	item := `{"id":"x","type":"function_call","call_id":"c","name":"f","arguments":"{}"},`
	body := `{"id":"r","status":"completed","output":[` + strings.TrimSuffix(strings.Repeat(item, maxBlocks+1), ",") + `]}`
	d := NewDecoder(&chat.Request{Dialect: chat.Responses}, 200, header.List{{Name: "content-type", Value: "application/json"}})
	events := d.Decode([]byte(body), true)
	if last := events[len(events)-1]; last.Kind != chat.Error || slices.ContainsFunc(events, func(ev chat.Event) bool { return ev.Kind == chat.End }) {
		t.Errorf("ends with %+v", last)
	}
}

func TestD20AProfileSetsDefaultsOrOverridesForResponses(t *testing.T) {
	for _, tt := range []struct {
		about, body    string
		profile        chat.Profile
		o              RequestOptions
		want, degraded string
	}{
		{
			about: "where the client says nothing", body: `{"model":"m","input":"x"}`,
			profile: chat.Profile{Default: chat.Params{Temperature: "0.3", CacheKey: "k", Effort: "low"}, MaxTokens: 7}, o: RequestOptions{Reasons: true},
			want: `{"model":"m","input":"x","reasoning":{"effort":"low"},"prompt_cache_key":"k","max_output_tokens":7}`, degraded: "temperature",
		},
		{
			about: "a model that does not reason", body: `{"model":"m","input":"x","top_p":0.5}`,
			profile: chat.Profile{Default: chat.Params{Temperature: "0.3", TopP: "0.9", Effort: "low"}},
			want:    `{"model":"m","input":"x","top_p":0.5,"temperature":0.3}`, degraded: "reasoning_effort",
		},
		{
			about: "a locked value overrides the client's", body: `{"model":"m","temperature":1,"reasoning":{"summary":"auto"},"text":{"verbosity":"low"},"input":"x"}`,
			profile:  chat.Profile{Locked: chat.Params{Temperature: "0.1", Effort: "none"}, Default: chat.Params{Schema: jsonx.Raw(`{"type":"object"}`), SchemaName: "s"}},
			o:        RequestOptions{Reasons: true},
			want:     `{"model":"m","temperature":0.1,"reasoning":{"effort":"none","summary":"auto"},"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"},"strict":false},"verbosity":"low"},"input":"x"}`,
			degraded: "temperature,response_schema",
		},
		{
			about: "what the format has no words for", body: `{"model":"m","input":"x"}`,
			profile: chat.Profile{Default: chat.Params{TopK: "40", Seed: "1", Stop: []string{"x"}}},
			want:    `{"model":"m","input":"x","top_p":0.9}`, degraded: "top_k:40->top_p:0.9,seed,stop_sequences",
		},
		{
			about: "D-24 sampling that the model refuses", body: `{"model":"m","temperature":0.5,"top_p":1,"input":"x"}`, o: RequestOptions{FixedSampling: true},
			want: `{"model":"m","top_p":1,"input":"x"}`, degraded: "temperature",
		},
	} {
		t.Run(tt.about, func(t *testing.T) {
			r, err := Dialect{}.Decode(chat.Generate, nil, "", []byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Profile = &tt.profile
			got, names, err := EncodeRequest(nil, r, tt.o)
			if err != nil || string(got) != tt.want || strings.Join(names, ",") != tt.degraded {
				t.Errorf("%v\ngot  %s %v\nwant %s %s", err, got, names, tt.want, tt.degraded)
			}
		})
	}
}
