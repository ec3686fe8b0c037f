package demo_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/demo"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

var dialects = map[chat.Dialect]wire.Dialect{ //nolint:exhaustive // the third is spoken by clients alone
	chat.OpenAI: openai.Dialect{}, chat.Anthropic: anthropic.Dialect{},
}

// ask sends a client's request through the adapter, as the gateway does, and returns the resulting events.
func ask(t *testing.T, base string, d chat.Dialect, body string) (kinds string, text string, usage chat.Usage, tool chat.ToolCall, reason chat.StopReason) {
	t.Helper()
	req, err := dialects[d].Decode(chat.Generate, header.List{{Name: "content-type", Value: "application/json"}}, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	at := provider.Endpoint{Provider: "demo", BasePath: "/v1"}
	call, err := demo.Adapter{}.Encode(nil, req, policy.Resolution{}, at)
	if err != nil {
		t.Fatal(err)
	}
	hr, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+call.Path, strings.NewReader(string(call.Body)))
	if err != nil {
		t.Fatal(err)
	}
	hr.Header.Set("Content-Type", "application/json")
	for _, f := range call.Header {
		hr.Header.Set(f.Name, f.Value)
	}
	res, err := http.DefaultTransport.RoundTrip(hr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	dec := demo.Adapter{}.NewDecoder(req, policy.Resolution{}, at, res.StatusCode, header.List{{Name: "content-type", Value: res.Header.Get("Content-Type")}})
	var seen []string
	var answered strings.Builder
	for _, ev := range dec.Decode(answer, true) {
		if n := name(ev.Kind); n != "" && (len(seen) == 0 || seen[len(seen)-1] != n) {
			seen = append(seen, n)
		}
		switch ev.Kind {
		case chat.Text:
			answered.Write(ev.Text)
		case chat.UsageInfo:
			usage.Merge(ev.Usage)
		case chat.Stop:
			reason = ev.Reason
		case chat.ToolStart:
			tool.Name = ev.Tool.Name
		case chat.ToolArgs:
			tool.Args += string(ev.Text)
		case chat.Error:
			t.Errorf("error %+v in %s", ev.Err, answer)
		case chat.Start, chat.Thought, chat.Signature, chat.Redacted, chat.Refusal, chat.BlockStop, chat.End, chat.Other, chat.Extra:
		}
	}
	return strings.Join(seen, " "), answered.String(), usage, tool, reason
}

// name returns the name of an event kind in the outline of an answer, "" for other kinds.
func name(k chat.EventKind) string {
	switch k {
	case chat.Start:
		return "start"
	case chat.Text:
		return "text"
	case chat.Thought:
		return "thought"
	case chat.ToolStart:
		return "tool"
	case chat.Stop:
		return "stop"
	case chat.End:
		return "end"
	case chat.Error:
		return "error"
	case chat.Signature, chat.Redacted, chat.Refusal, chat.ToolArgs, chat.BlockStop, chat.UsageInfo, chat.Other, chat.Extra:
	}
	return ""
}

func TestAnswersByItsRule(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(demo.Server{})
	t.Cleanup(s.Close)
	const (
		toolO = `"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}],`
		toolA = `"tools":[{"name":"add","input_schema":{"type":"object"}}],`
	)
	const schema = `{"type":"object","properties":{"a":{"enum":["x","y"]},"n":{"type":"number","minimum":4,"maximum":5}},"required":["a","n"]}`
	for _, c := range []struct {
		name     string
		d        chat.Dialect
		more     string // members in addition to model and messages
		user     string
		kinds    string
		contains string
		tool     chat.ToolCall
		reason   chat.StopReason
	}{
		{"a sentence", chat.OpenAI, "", "hi there", "start text stop end", `model "any", 1 message and 0 tools. The last user text: hi there`, chat.ToolCall{}, chat.StopEnd},
		{"a sentence", chat.Anthropic, `"max_tokens":500,`, "hi there", "start text stop end", `model "any", 1 message and 0 tools. The last user text: hi there`, chat.ToolCall{}, chat.StopEnd},
		{"a call", chat.OpenAI, toolO, `please call add {\"a\":1, \"b\":{}} now`, "start tool stop end", "", chat.ToolCall{Name: "add", Args: `{"a":1, "b":{}}`}, chat.StopTool},
		{"a call", chat.Anthropic, `"max_tokens":500,` + toolA, `call add {\"a\":1}`, "start tool stop end", "", chat.ToolCall{Name: "add", Args: `{"a":1}`}, chat.StopTool},
		{"a call of a tool that is not declared", chat.OpenAI, toolO, `call sub {}`, "start text stop end", "1 tool.", chat.ToolCall{}, chat.StopEnd},
		{"thinking", chat.OpenAI, `"reasoning_effort":"low",`, "hm", "start thought text stop end", "hm", chat.ToolCall{}, chat.StopEnd},
		{"thinking", chat.Anthropic, `"max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":1024},`, "hm", "start thought text stop end", "hm", chat.ToolCall{}, chat.StopEnd},
		{"a schema", chat.OpenAI, `"response_format":{"type":"json_schema","json_schema":{"name":"d","schema":` + schema + `}},`, "hm", "start text stop end", `{"a":"x","n":4.5}`, chat.ToolCall{}, chat.StopEnd},
		{"a schema", chat.Anthropic, `"max_tokens":500,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}},`, "hm", "start text stop end", `{"a":"x","n":4.5}`, chat.ToolCall{}, chat.StopEnd},
		{"a tool to answer by", chat.OpenAI, `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"respond_d","parameters":` + schema + `}}],`, "hm", "start tool stop end", "", chat.ToolCall{Name: "respond_d", Args: `{"a":"x","n":4.5}`}, chat.StopTool},
		{"a schema in words", chat.Anthropic, `"max_tokens":500,"system":"Respond ONLY with valid JSON matching this structure:\n` + strings.ReplaceAll(schema, `"`, `\"`) + `\nDo so.",`, "hm", "start text stop end", `{"a":"x","n":4.5}`, chat.ToolCall{}, chat.StopEnd},
		{"a stop sequence", chat.OpenAI, `"stop":["zz","; no"],`, "hm", "start text stop end", "demo provider", chat.ToolCall{}, chat.StopEnd},
		{"a stop sequence", chat.Anthropic, `"max_tokens":500,"stop_sequences":["zz","; no"],`, "hm", "start text stop end", "demo provider", chat.ToolCall{}, chat.StopSequence},
		{"a limit before the stop sequence", chat.OpenAI, `"max_tokens":4,"stop":"; no",`, "hm", "start text stop end", "This is", chat.ToolCall{}, chat.StopLength},
		{"a limit", chat.OpenAI, `"max_tokens":4,`, "hm", "start text stop end", "This is", chat.ToolCall{}, chat.StopLength},
	} {
		for _, stream := range []string{"", `"stream":true,`} {
			t.Run(string(c.d)+" "+c.name+" "+stream, func(t *testing.T) {
				t.Parallel()
				body := `{"model":"any",` + stream + c.more + `"messages":[{"role":"user","content":"` + c.user + `"}]}`
				kinds, contains, usage, tool, reason := ask(t, s.URL, c.d, body)
				if kinds != c.kinds || !strings.Contains(contains, c.contains) || tool != c.tool || reason != c.reason {
					t.Errorf("got %s, %q, %+v, %s\nwant %s, %q, %+v, %s", kinds, contains, tool, reason, c.kinds, c.contains, c.tool, c.reason)
				}
				if want := int64(len(body)+3) / 4; usage.TotalInput() != want || usage.Output == 0 {
					t.Errorf("usage %+v, want %d input tokens", usage, want)
				}
			})
		}
	}
}

// TestATextEndsBeforeTheFirstStopSequence, of several, in each choice.
func TestATextEndsBeforeTheFirstStopSequence(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(demo.Server{})
	t.Cleanup(s.Close)
	for stop, want := range map[string]string{
		`"; no"`:                         "This is Bardo's demo provider",
		`["model","Bardo","provider"]`:   "This is This is ",
		`["",  "nowhere", "; no model"]`: "This is Bardo's demo provider",
		`"This"`:                         "",
	} {
		more := ""
		if strings.Contains(want, "This is This is") {
			more = `"n":2,`
		}
		if _, text, _, _, _ := ask(t, s.URL, chat.OpenAI, `{"model":"m",`+more+`"stop":`+stop+`,"messages":[{"role":"user","content":"x"}]}`); text != want {
			t.Errorf("stop %s: %q, want %q", stop, text, want)
		}
	}
}

// TestParametersWithoutEffectAreNamed in X-Bardo-Degraded, in both formats. Those that ask for nothing are not.
func TestParametersWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    chat.Dialect
		more string
		want string
	}{
		{chat.OpenAI, `"logprobs":true,"top_logprobs":2,"logit_bias":{"1":2},"temperature":0,"seed":1,`, "logit_bias logprobs seed temperature top_logprobs"},
		{chat.OpenAI, `"logprobs":false,"seed":null,"n":2,"stop":["a"],"max_tokens":9,"user":"u",`, ""},
		{chat.Anthropic, `"max_tokens":9,"top_k":3,"temperature":1,"stop_sequences":["a"],`, "temperature top_k"},
	} {
		req, err := dialects[c.d].Decode(chat.Generate, header.List{{Name: "content-type", Value: "application/json"}}, "", []byte(`{"model":"m",`+c.more+`"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		call, err := demo.Adapter{}.Encode(nil, req, policy.Resolution{}, provider.Endpoint{BasePath: "/v1"})
		if err != nil || strings.Join(call.Degraded, " ") != c.want {
			t.Errorf("%s: %v, %v", c.more, call.Degraded, err)
		}
	}
}

func TestTheSameRequestGetsTheSameAnswer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(demo.NewServer())
	t.Cleanup(s.Close)
	send := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages", strings.NewReader(`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%d %v %s", res.StatusCode, err, b)
		}
		return string(b)
	}
	if a, b := send(), send(); a != b {
		t.Errorf("two answers:\n%s\n%s", a, b)
	}
}

func TestRefusesInTheCallersFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, body string
		status             int
		contains           string
	}{
		{http.MethodPost, "/v1/chat/completions", `{"model":`, 400, `"error"`},
		{http.MethodPost, "/v1/messages", `{"model":`, 400, `"type":"error"`},
		{http.MethodPost, "/v1/messages", strings.Repeat("x", 2000), 413, `"type":"error"`},
		{http.MethodPost, "/v1/audio", `{}`, 404, `"error"`},
		{http.MethodPut, "/v1/messages", `{}`, 405, `"error"`},
		{http.MethodGet, "/v1/models", "", 200, `"demo"`},
		{http.MethodPost, "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 200, `{"input_tokens":14}`},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		demo.Server{MaxBytes: 1000}.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, w.Code, w.Body, c.status, c.contains)
		}
	}
}

func TestTheAdapterChangesOnlyTheModel(t *testing.T) {
	t.Parallel()
	body := `{ "model" : "demo/x", "stream":true, "messages":[{"role":"user","content":"hi"}] }`
	req, err := openai.Dialect{}.Decode(chat.Generate, header.List{{Name: "content-type", Value: "application/json"}}, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	call, err := demo.Adapter{}.Encode(nil, req, policy.Resolution{Upstream: "x"}, provider.Endpoint{BasePath: "/v1"})
	if err != nil || string(call.Body) != strings.Replace(body, "demo/x", "x", 1) || call.Path != "/v1/chat/completions" {
		t.Errorf("%v: %s %s", err, call.Path, call.Body)
	}
}
