package fake_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

func TestVendorsTakeAndRefuseWhatTheirDocumentsSay(t *testing.T) {
	t.Parallel()
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	const called = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null%s,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]`
	for _, r := range []struct {
		vendor     fake.Vendor
		about      string
		path, body string
		status     int
		says       string
	}{
		{fake.Venice, "its own parameters", "/chat/completions", `{"model":"m","venice_parameters":{"enable_web_search":"auto"},"min_p":0.1,` + hi + `}`, 200, ""},
		{fake.Venice, "an unknown one of them", "/chat/completions", `{"model":"m","venice_parameters":{"search":true},` + hi + `}`, 400, "venice_parameters"},
		{fake.Venice, "a search that is neither on nor off", "/chat/completions", `{"model":"m","venice_parameters":{"enable_web_search":"true"},` + hi + `}`, 400, "off, on or auto"},
		{fake.Venice, "OpenRouter's preferences", "/chat/completions", `{"model":"m","provider":{},` + hi + `}`, 400, "provider"},
		{fake.OpenRouter, "preferences", "/chat/completions", `{"model":"a/m","provider":{"sort":"price","data_collection":"deny"},"usage":{"include":true},` + hi + `}`, 200, `"cost":` + fake.OpenRouterCost},
		{fake.OpenRouter, "no cost unless it is wanted", "/chat/completions", `{"model":"a/m",` + hi + `}`, 200, ""},
		{fake.OpenRouter, "a model without its maker", "/chat/completions", `{"model":"m",` + hi + `}`, 400, "not a valid model ID"},
		{fake.OpenRouter, "an effort and a budget", "/chat/completions", `{"model":"a/m","reasoning":{"effort":"low","max_tokens":9},` + hi + `}`, 400, "Only one of"},
		{fake.BlockRun, "a level of Gemini's", "/chat/completions", `{"model":"google/gemini-3-flash","thinking_level":"high",` + hi + `}`, 200, ""},
		{fake.BlockRun, "a level of another family", "/chat/completions", `{"model":"openai/gpt-5.2","thinking_level":"high",` + hi + `}`, 400, "thinking_level"},
		{fake.BlockRun, "Claude in OpenAI's format", "/chat/completions", `{"model":"anthropic/claude-opus-4.6",` + hi + `}`, 400, "/v1/messages"},
		{fake.BlockRun, "Claude in its own", "/messages", `{"model":"anthropic/claude-opus-4.6","max_tokens":9,` + hi + `}`, 200, ""},
		{fake.Bankr, "another family in Claude's format", "/messages", `{"model":"gpt-5.2","max_tokens":9,` + hi + `}`, 400, "not served"},
		{fake.DeepSeek, "K-17: a call without its reasoning", "/chat/completions", `{"model":"deepseek-v4-pro","thinking":{"type":"enabled"},` + strings.Replace(called, "%s", "", 1) + `}`, 400, "must be passed back"},
		{fake.DeepSeek, "a call with it", "/chat/completions", `{"model":"deepseek-v4-pro","thinking":{"type":"enabled"},` + strings.Replace(called, "%s", `,"reasoning_content":"Hm."`, 1) + `}`, 200, ""},
		{fake.DeepSeek, "a schema", "/chat/completions", `{"model":"deepseek-chat","response_format":{"type":"json_schema"},` + hi + `}`, 400, "unavailable"},
		{fake.Qwen, "thinking without a stream", "/chat/completions", `{"model":"qwen3-32b",` + hi + `}`, 400, "non-streaming"},
		{fake.Qwen, "no thinking without a stream", "/chat/completions", `{"model":"qwen3-32b","enable_thinking":false,` + hi + `}`, 200, ""},
	} {
		t.Run(string(r.vendor)+" "+r.about, func(t *testing.T) {
			t.Parallel()
			s := fake.Start(t, fake.Config{Vendor: r.vendor})
			status, body := ask(t, s, r.path, r.body)
			if status != r.status || !strings.Contains(body, r.says) {
				t.Errorf("%d %s, want %d with %q", status, body, r.status, r.says)
			}
		})
	}
}

func TestAnUnknownVendorIsRefused(t *testing.T) {
	if _, err := fake.New(t.Context(), fake.Config{Vendor: "nobody"}); err == nil {
		t.Error("it runs")
	}
}

func ask(t *testing.T, s *fake.Server, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got)
}
