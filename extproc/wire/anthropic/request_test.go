package anthropic_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// decode decodes a valid request.
func decode(t testing.TB, body string) *chat.Request {
	t.Helper()
	r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// request returns a minimal body with more members.
func request(members string) string {
	return `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// scalars are the members of a request that Decode reads.
type scalars struct {
	model                  string
	stream, thinking, high bool
	maxTokens              int
	betas                  []string
	op                     chat.Op
}

// decodeRows are requests, and what the gateway parses.
var decodeRows = []struct {
	name   string
	op     chat.Op
	header header.List
	body   string
	want   scalars
}{
	{name: "the least", body: request(""), want: scalars{model: "m", maxTokens: 10}},
	{name: "a stream", body: request(`,"stream":true`), want: scalars{model: "m", maxTokens: 10, stream: true}},
	{name: "nulls are absent", body: request(`,"stream":null,"thinking":null,"output_config":null`), want: scalars{model: "m", maxTokens: 10}},
	{
		name: "thinking", body: request(`,"thinking":{"type":"enabled","budget_tokens":1024}`),
		want: scalars{model: "m", maxTokens: 10, thinking: true},
	},
	{
		name: "much thinking", body: request(`,"thinking":{"type":"enabled","budget_tokens":32000}`),
		want: scalars{model: "m", maxTokens: 10, thinking: true, high: true},
	},
	{name: "adaptive", body: request(`,"thinking":{"type":"adaptive"}`), want: scalars{model: "m", maxTokens: 10, thinking: true}},
	{name: "no thinking", body: request(`,"thinking":{"type":"disabled"}`), want: scalars{model: "m", maxTokens: 10}},
	{
		name: "high effort", body: request(`,"output_config":{"effort":"max"}`),
		want: scalars{model: "m", maxTokens: 10, thinking: true, high: true},
	},
	{
		name: "betas, one by one", body: request(""),
		header: header.List{{Name: "anthropic-beta", Value: "a-1, b-2"}, {Name: "x", Value: "y"}, {Name: "anthropic-beta", Value: "c-3"}},
		want:   scalars{model: "m", maxTokens: 10, betas: []string{"a-1", "b-2", "c-3"}},
	},
	{
		name: "a count needs no limit, and is no stream K-85", op: chat.CountTokens,
		body: `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
		want: scalars{model: "m", op: chat.CountTokens},
	},
}

func TestDecodeReadsWhatTheGatewayActsOn(t *testing.T) {
	for _, tt := range decodeRows {
		t.Run(tt.name, func(t *testing.T) {
			r, err := anthropic.Dialect{}.Decode(tt.op, tt.header, "beta=true", []byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			got := scalars{
				model: r.Model, stream: r.Stream, thinking: r.Thinking, high: r.HighEffort, maxTokens: r.MaxTokens,
				betas: r.Betas, op: r.Op,
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
			if r.Query != "beta=true" || r.Choices != 1 || r.Dialect != chat.Anthropic || r.InputTokens < 1 {
				t.Errorf("got %q, %d choices, dialect %s, %d tokens", r.Query, r.Choices, r.Dialect, r.InputTokens)
			}
		})
	}
}

func TestMistakesAreNamedByTheirField(t *testing.T) {
	tests := []struct{ body, param, contains string }{
		{`{"model":"m",`, "", "line 1, column 14"},
		{`[]`, "", "expected a JSON object"},
		{`{"max_tokens":1,"messages":[{}]}`, "model", "is required"},
		{`{"model":7,"max_tokens":1,"messages":[{}]}`, "model", "must be a string, not a number"},
		{`{"model":"` + strings.Repeat("m", 300) + `","max_tokens":1,"messages":[{}]}`, "model", "256 bytes"},
		{`{"model":"m\u001b[2J","max_tokens":1,"messages":[{}]}`, "model", "control characters"},
		{`{"model":"m","messages":[{}]}`, "max_tokens", "is required"},
		{`{"model":"m","max_tokens":0,"messages":[{}]}`, "max_tokens", "positive integer"},
		{`{"model":"m","max_tokens":1.5,"messages":[{}]}`, "max_tokens", "positive integer"},
		{`{"model":"m","max_tokens":1}`, "messages", "is required"},
		{`{"model":"m","max_tokens":1,"messages":[]}`, "messages", "must not be empty"},
		{`{"model":"m","max_tokens":1,"messages":"hi"}`, "messages", "must be an array, not a string"},
		{request(`,"stream":"yes"`), "stream", "must be a boolean"},
		{request(`,"thinking":{}`), "thinking.type", "must be a string"},
		{request(`,"output_config":{"effort":3}`), "output_config.effort", "must be a string"},
	}
	for _, tt := range tests {
		_, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(tt.body))
		checkFault(t, tt.body, err, tt.param, tt.contains)
	}
}

func TestMistakesInsideTheConversationAreNamedByTheirPath(t *testing.T) {
	content := func(c string) string {
		return `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":` + c + `}]}`
	}
	tests := []struct{ body, param, contains string }{
		{`{"model":"m","max_tokens":1,"messages":["hi"]}`, "messages.0", "must be an object, not a string"},
		{`{"model":"m","max_tokens":1,"messages":[{"role":"robot","content":"x"}]}`, "messages.0.role", "user or assistant"},
		{content(`7`), "messages.0.content", "must be a string or an array"},
		{content(`[7]`), "messages.0.content.0.type", "must be a string"},
		{content(`[{"type":"text"}]`), "messages.0.content.0.text", "must be a string, not nothing"},
		{content(`[{"type":"image"}]`), "messages.0.content.0.source.type", "must be a string"},
		{content(`[{"type":"image","source":{"type":"base64","data":"x"}}]`), "messages.0.content.0.source.media_type", "must be a string"},
		{content(`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text"}]}]`), "messages.0.content.0.content.0.text", "must be a string"},
		{content(`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_result","tool_use_id":"t","content":[]}]}]}]}]`), "messages.0.content.0.content.0.content.0.content.0.content", "nested too deeply"},
		{content(`[{"type":"tool_use","id":"t","name":"n","input":"x"}]`), "messages.0.content.0.input", "must be an object"},
		{content(`[{"type":"tool_result","tool_use_id":"t","is_error":"x"}]`), "messages.0.content.0.is_error", "must be a boolean"},
		{content(`[{"type":"document","title":7,"source":{"type":"text","data":"x"}}]`), "messages.0.content.0.title", "must be a string"},
		{content(`[{"type":"thinking","thinking":"x","signature":7}]`), "messages.0.content.0.signature", "must be a string"},
		{request(`,"tools":[{"name":"f","input_schema":7}]`), "tools.0.input_schema", "must be an object"},
		{request(`,"tools":[{"name":"f","description":7}]`), "tools.0.description", "must be a string"},
		{request(`,"tools":[{"name":"f","strict":7}]`), "tools.0.strict", "must be a boolean"},
		{request(`,"tool_choice":{"type":"auto","disable_parallel_tool_use":7}`), "tool_choice.disable_parallel_tool_use", "must be a boolean"},
		{request(`,"metadata":7`), "metadata", "must be an object"},
		{request(`,"metadata":{"user_id":7}`), "metadata.user_id", "must be a string"},
		{request(`,"tools":{}`), "tools", "must be an array"},
		{request(`,"tools":[{"input_schema":{}}]`), "tools.0.name", "non-empty"},
		{request(`,"tool_choice":{"type":"maybe"}`), "tool_choice.type", "must be auto"},
		{request(`,"tool_choice":{"type":"tool"}`), "tool_choice.name", "non-empty"},
		{request(`,"temperature":"hot"`), "temperature", "must be a number"},
		{request(`,"stop_sequences":"x"`), "stop_sequences", "must be an array"},
		{request(`,"stop_sequences":["x",1]`), "stop_sequences.1", "must be a string"},
		{request(`,"output_config":{"format":{"type":"json_schema"}}`), "output_config.format.schema", "must be an object"},
	}
	for _, tt := range tests {
		_, err := decode(t, tt.body).Conversation()
		checkFault(t, tt.body, err, tt.param, tt.contains)
	}
}

func checkFault(t *testing.T, body string, err error, param, message string) {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Errorf("%s: got %v, want a fault", body, err)
		return
	}
	if f.Kind != fault.InvalidRequest || f.Param != param || !strings.Contains(f.Public, message) {
		t.Errorf("%s: got %s, param %q, %q\nwant param %q, %q", body, f.Kind, f.Param, f.Public, param, message)
	}
}

func TestHintsNeverReachAProvider(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{
			"the object at the top",
			request(`,"bardo":{"subsystem":"risk"},"x":1`), request(`,"x":1`),
		},
		{
			"on blocks, wherever they stand in them",
			`{"model":"m","max_tokens":1,"system":[{"bardo":"static","type":"text","text":"a"}],"messages":[{"role":"user","content":[{"type":"text","bardo":"volatile","text":"b"},{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"c" , "bardo":"static"}]}]}]}`,
			`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":[{"type":"text","text":"b"},{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"c"}]}]}]}`,
		},
		{
			"alone, and first of two",
			`{"model":"m","max_tokens":1,"tools":[{"bardo":1},{"bardo" : 1},{"bardo":1 ,"name":"n"}],"messages":[{"role":"user","content":"b"}]}`,
			`{"model":"m","max_tokens":1,"tools":[{},{},{"name":"n"}],"messages":[{"role":"user","content":"b"}]}`,
		},
		{
			"text that speaks of it stays",
			request(`,"metadata":{"user_id":"\"bardo\""}`), request(`,"metadata":{"user_id":"\"bardo\""}`),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := anthropic.EncodeRequest(nil, decode(t, tt.body), anthropic.RequestOptions{Model: "m"})
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

// fullRequest has every member that the canonical form has.
const fullRequest = `{"model":"m","max_tokens":5,
	"system":[{"type":"text","text":"be\nkind","cache_control":{"type":"ephemeral"}}],
	"messages":[
	 {"role":"user","content":"hi"},
	 {"role":"assistant","content":[
	  {"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xyz"},
	  {"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1.0}},{"type":"tool_use","id":"t2","name":"g"},
	  {"type":"server_tool_use","id":"s1","name":"web_search","input":{}}]},
	 {"role":"user","content":[
	  {"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"bad"},
	  {"type":"tool_result","tool_use_id":"t2","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}],"cache_control":{"type":"ephemeral"}},
	  {"type":"text","text":"and"},
	  {"type":"image","source":{"type":"url","url":"https://x/y.png"}},
	  {"type":"image","source":{"type":"file","file_id":"f1"}},
	  {"type":"document","title":"a.pdf","context":"old","source":{"type":"base64","media_type":"application/pdf","data":"BB"}},
	  {"type":"document","source":{"type":"url","url":"https://x/z.pdf"}},
	  {"type":"document","title":"t","source":{"type":"text","media_type":"text/plain","data":"plain"}},
	  {"type":"document","source":{"type":"content","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}},
	  {"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]}]},
	 {"role":"system","content":"mid"}],
	"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}],
	"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
	"stop_sequences":["a","b"],"temperature":0.30,"top_p":0.9,"top_k":5,"metadata":{"user_id":"u"},
	"thinking":{"type":"enabled","budget_tokens":2048},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},
	"service_tier":"auto","container":"c","stream":false}`

func TestConversationHoldsAllThatBothDialectsCanSay(t *testing.T) {
	alone := false
	want := &chat.Conversation{
		System: []chat.Part{{Kind: chat.PartText, Text: "be\nkind", CacheControl: ephemeral}},
		Messages: []chat.Message{
			{Role: chat.RoleUser, At: "messages.0", Parts: []chat.Part{{Kind: chat.PartText, Text: "hi"}}},
			{Role: chat.RoleAssistant, At: "messages.1", Parts: []chat.Part{
				{Kind: chat.PartThinking, Text: "hm", Signature: "sig"},
				{Kind: chat.PartRedacted, Data: "xyz"},
				{Kind: chat.PartText, Text: "ok"},
				{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "t1", Name: "f", Args: `{"a":1.0}`}},
				{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "t2", Name: "g", Args: `{}`}},
				{Kind: chat.PartOther, At: "messages.1.content.5", Name: "server_tool_use", Trace: true, Raw: jsonx.Raw(`{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`)},
			}},
			{Role: chat.RoleTool, At: "messages.2", Parts: []chat.Part{
				{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: "t1"}, IsError: true, Parts: []chat.Part{{Kind: chat.PartText, Text: "bad"}}},
				{
					Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: "t2"}, CacheControl: ephemeral,
					Parts: []chat.Part{{Kind: chat.PartImage, At: "messages.2.content.1.content.0", Media: "image/png", Data: "AA"}},
				},
			}},
			{Role: chat.RoleUser, At: "messages.2", Parts: []chat.Part{
				{Kind: chat.PartText, Text: "and"},
				{Kind: chat.PartImage, At: "messages.2.content.3", URL: "https://x/y.png"},
				{Kind: chat.PartFile, At: "messages.2.content.4", File: "f1", Media: "image/*"},
				{Kind: chat.PartDocument, At: "messages.2.content.5", Media: "application/pdf", Data: "BB", Name: "a.pdf", Context: "old"},
				{Kind: chat.PartDocument, At: "messages.2.content.6", URL: "https://x/z.pdf"},
				{Kind: chat.PartDocument, At: "messages.2.content.7", Media: "text/plain", Text: "plain", Name: "t"},
				{Kind: chat.PartDocument, At: "messages.2.content.8", Media: "text/plain", Text: "one\n\ntwo"},
				{Kind: chat.PartDocument, At: "messages.2.content.9", Media: "text/plain", Text: "found", Name: "t", Context: "s"},
			}},
			{Role: chat.RoleSystem, At: "messages.3", Parts: []chat.Part{{Kind: chat.PartText, Text: "mid"}}},
		},
		Tools: []chat.Tool{
			{Name: "f", Description: "d", Schema: jsonx.Raw(`{"type":"object"}`), Strict: true, CacheControl: ephemeral},
			{Name: "web_search", Raw: jsonx.Raw(`{"type":"web_search_20250305","name":"web_search"}`)},
		},
		ToolChoice:    chat.ToolChoice{Mode: chat.ToolNamed, Name: "f"},
		ParallelTools: &alone,
		Params: chat.Params{
			Temperature: "0.30", TopP: "0.9", TopK: "5", Stop: []string{"a", "b"}, User: "u", Effort: "low",
			ThinkingBudget: 2048, Schema: jsonx.Raw(`{"type":"object"}`),
		},
		Unmapped: []string{"search_result", "container"},
	}
	got, err := decode(t, fullRequest).Conversation()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", pretty(t, got), pretty(t, want))
	}
}

func pretty(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheSameDialectPassesByteByByteK25(t *testing.T) {
	body := "{ \"max_tokens\" : 1e0 ,\n\"unknown\": 12345678901234567890.10, \"model\":\"m\\u0031\", \"messages\":[ {\"role\":\"user\",\"content\":\"\\u00e9\"} ] }"
	body = strings.Replace(body, "1e0", "1", 1)
	r := decode(t, body)
	for range 100 {
		got, degraded, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m1"})
		if err != nil || len(degraded) > 0 || string(got) != body {
			t.Fatalf("got %s, %v, %v", got, degraded, err)
		}
	}
	got, _, err := anthropic.EncodeRequest([]byte("kept "), r, anthropic.RequestOptions{Model: "other"})
	if want := "kept " + strings.Replace(body, `"m\u0031"`, `"other"`, 1); err != nil || string(got) != want {
		t.Fatalf("got %s, %v\nwant %s", got, err, want)
	}
	if second, _, _ := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m1"}); string(second) != body {
		t.Fatalf("an attempt left its model to the next: %s", second)
	}
}

func FuzzTheSameDialectPassesByteByByte(f *testing.F) {
	f.Add(request(""))
	f.Add(request(`,"system":[{"type":"text","text":"é"}],"n":1e99`))
	f.Fuzz(func(t *testing.T, body string) {
		r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil || strings.Contains(body, `"bardo"`) || r.Doc.Find("bardo") >= 0 {
			return
		}
		got, _, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: r.Model})
		if err != nil || string(got) != body {
			t.Fatalf("got %q, %v\nwant %q", got, err, body)
		}
	})
}

func FuzzHintsLeaveValidJSON(f *testing.F) {
	f.Add(`{"bardo":1 , "type":"text"}`)
	f.Add(`{"a":1,"bardo":{},"bardo":[] }`)
	f.Fuzz(func(t *testing.T, block string) {
		body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[` + block + `]}],"system":[` + block + `]}`
		r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			return
		}
		got, _, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonx.Scan(got)
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		for _, e := range doc.Get("system").Each {
			if e.Get("bardo").Exists() {
				t.Fatalf("a hint is left in %s", got)
			}
		}
	})
}

func TestErrorsCarryTheStatusTypeAndTheGatewaysCode(t *testing.T) {
	tests := []struct {
		kind fault.Kind
		want string
	}{
		{fault.InvalidRequest, "invalid_request_error"},
		{fault.UnsupportedMedia, "invalid_request_error"},
		{fault.InvalidAPIKey, "authentication_error"},
		{fault.InsufficientFunds, "billing_error"},
		{fault.KeyRestricted, "permission_error"},
		{fault.ModelNotFound, "not_found_error"},
		{fault.TooLarge, "request_too_large"},
		{fault.RateLimited, "rate_limit_error"},
		{fault.Internal, "api_error"},
		{fault.Upstream, "api_error"},
		{fault.Overloaded, "overloaded_error"},
		{fault.UpstreamTimeout, "timeout_error"},
	}
	for _, tt := range tests {
		got := string(anthropic.Dialect{}.Error(fault.New(tt.kind, `say "it"`, errors.New("secret")), "req_1"))
		want := `{"type":"error","error":{"type":"` + tt.want + `","message":"say \"it\"","code":"` + string(tt.kind) + `"},"request_id":"req_1"}`
		if got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	stated := &fault.Fault{Kind: fault.InvalidRequest, Status: 409, Public: "x"}
	want := `{"type":"error","error":{"type":"invalid_request_error","message":"x","code":"invalid_request"}}`
	if got := string(anthropic.Dialect{}.Error(stated, "")); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestMessageThreadsAreRefusedWithTheirClientsCode: a client that gets this error.details.error_code sends the whole conversation, and uses
// no more threads.
func TestMessageThreadsAreRefusedWithTheirClientsCode(t *testing.T) {
	for _, thread := range []string{`{"type":"create"}`, `{"type":"continue","previous_message_id":"msg_1"}`} {
		body := request(`,"thread":` + thread)
		_, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		checkFault(t, body, err, "thread", "send the whole conversation")
		f := fault.From(err)
		got := string(anthropic.Dialect{}.Error(f, ""))
		if f.HTTPStatus() != 400 || !strings.Contains(got, `"details":{"error_code":"thread_unsupported_request"}`) {
			t.Errorf("%s: got %d %s", thread, f.HTTPStatus(), got)
		}
		if _, err := (anthropic.Dialect{}).Decode(chat.CountTokens, nil, "", []byte(body)); err != nil {
			t.Errorf("%s: a count of tokens is refused: %v", thread, err)
		}
	}
	if body := request(`,"thread":null`); decode(t, body).Model != "m" {
		t.Errorf("%s is refused", body)
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := []byte(request(`,"stream":true,"system":"` + strings.Repeat("be kind ", 4000) + `"`))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (anthropic.Dialect{}).Decode(chat.Generate, nil, "", body); err != nil {
			b.Fatal(err)
		}
	}
}
