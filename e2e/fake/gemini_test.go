package fake_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

// askGemini sends a request to a fake of Gemini's format.
func askGemini(t *testing.T, s *fake.Server, path, key, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-Goog-Api-Key", key)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestRefusesWhatGeminiRefuses(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Gemini, Models: []string{"gemini-2.5-x", "gemini-3-x"}})
	const user = `{"role":"user","parts":[{"text":"hi"}]}`
	const call = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`
	const result = `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}`
	for _, c := range []struct {
		about, model, body string
		status             int
		text               string
	}{
		{"a plain question", "gemini-2.5-x", `{"contents":[` + user + `]}`, 200, `"finishReason": "STOP"`},
		{"both spellings", "gemini-2.5-x", `{"contents":[` + user + `],"system_instruction":{"parts":[{"text":"a"}]},"generation_config":{"top_k":3}}`, 200, "Hello"},
		{"a tool loop", "gemini-2.5-x", `{"contents":[` + user + `,` + call + `,` + result + `]}`, 200, "Hello"},
		{"another model", "gemini-9", `{"contents":[` + user + `]}`, 404, "NOT_FOUND"},
		{"no contents", "gemini-3-x", `{}`, 400, "contents is not specified"},
		{"an unknown member", "gemini-3-x", `{"contents":[` + user + `],"messages":[]}`, 400, `Unknown name \"messages\"`},
		{"an unknown role", "gemini-3-x", `{"contents":[{"role":"assistant","parts":[{"text":"a"}]}]}`, 400, "Please use a valid role"},
		{"no parts", "gemini-3-x", `{"contents":[{"role":"user","parts":[]}]}`, 400, "must not be empty"},
		{"an empty part", "gemini-3-x", `{"contents":[{"role":"user","parts":[{}]}]}`, 400, "required oneof field"},
		{"the model last", "gemini-3-x", `{"contents":[` + user + `,{"role":"model","parts":[{"text":"a"}]}]}`, 400, "end with a user role"},
		{"a call without a response", "gemini-2.5-x", `{"contents":[` + user + `,` + call + `,` + user + `]}`, 400, "number of function response parts"},
		{"a response without a call", "gemini-2.5-x", `{"contents":[` + user + `,` + result + `]}`, 400, "comes immediately after a function call turn"},
		{"a call first", "gemini-2.5-x", `{"contents":[` + call + `,` + result + `]}`, 400, "immediately after a user turn"},
		{"a call without a signature", "gemini-3-x", `{"contents":[` + user + `,` + call + `,` + result + `]}`, 400, "missing a thought_signature"},
		{"a wrong signature", "gemini-2.5-x", `{"contents":[` + user + `,{"role":"model","parts":[{"text":"a","thoughtSignature":"eA=="}]},` + user + `]}`, 400, "Corrupted thought signature"},
		{"its own signature", "gemini-2.5-x", `{"contents":[` + user + `,{"role":"model","parts":[{"text":"a","thoughtSignature":"` + fake.GeminiSignature("x") + `"}]},` + user + `]}`, 200, "Hello"},
		{"a level and a budget", "gemini-3-x", `{"contents":[` + user + `],"generationConfig":{"thinkingConfig":{"thinkingLevel":"low","thinkingBudget":1}}}`, 400, "only set only one"},
		{"a level for a model with budgets", "gemini-2.5-x", `{"contents":[` + user + `],"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}}`, 400, "not supported"},
		{"a temperature", "gemini-3-x", `{"contents":[` + user + `],"generationConfig":{"temperature":3}}`, 400, "temperature"},
		{"stop sequences", "gemini-3-x", `{"contents":[` + user + `],"generationConfig":{"stopSequences":["a","b","c","d","e","f"]}}`, 400, "stop sequences"},
		{"names without a constraint", "gemini-3-x", `{"contents":[` + user + `],"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["f"]}}}`, 400, "only be set when the mode is ANY"},
	} {
		t.Run(c.about, func(t *testing.T) {
			t.Parallel()
			status, got := askGemini(t, s, "/models/"+c.model+":generateContent", s.Key, c.body)
			if status != c.status || !strings.Contains(got, c.text) {
				t.Errorf("got %d %s, want %d with %q", status, got, c.status, c.text)
			}
		})
	}
}

func TestGeminiRefusesAWrongCredentialAsItDoes(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	for key, want := range map[string]int{"": http.StatusForbidden, "wrong": http.StatusBadRequest} {
		if status, got := askGemini(t, s, "/models/m:generateContent", key, `{"contents":[{"parts":[{"text":"hi"}]}]}`); status != want {
			t.Errorf("with %q got %d %s", key, status, got)
		}
	}
}

func TestGeminiStreamsChunksWithoutATerminator(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	s.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "Hm."}}, ToolCalls: []fake.ToolCall{{Name: "f", Args: `{"a":1}`}}})
	_, got := askGemini(t, s, "/models/m:streamGenerateContent?alt=sse", s.Key, `{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`)
	for _, want := range []string{`{"text":"Hm.","thought":true}`, `"functionCall":{"name":"f","args":{"a":1}`, fake.GeminiSignature("Hm."), `"finishReason":"STOP"`} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s is not once in %s", want, got)
		}
	}
	if strings.Contains(got, "[DONE]") {
		t.Errorf("a terminator: %s", got)
	}
}
