package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestTokensOfOpenAIsModelsAreCounted: exactly, for text; what is estimated is labelled.
func TestTokensOfOpenAIsModelsAreCounted(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: append(models("gpt-5-mini", ""), models("llama", "")...)}}})
	// "user" and "Hello world" are one token and two; a message has three more, and so has the answer.
	const text = `"messages":[{"role":"user","content":"Hello world"}]`
	for _, c := range []struct {
		about, body string
		want        string
		degraded    string
	}{
		{"text for a model of OpenAI's", `{"model":"gpt-5-mini",` + text + `}`, `{"input_tokens":9}`, ""},
		{"with instructions", `{"model":"gpt-5-mini","system":"Hello world",` + text + `}`, `{"input_tokens":15}`, ""},
		{"with tools", `{"model":"gpt-5-mini",` + text + `,"tools":[{"name":"t","input_schema":{"type":"object"}}]}`, `"input_tokens":`, "estimated"},
		{"with an image", `{"model":"gpt-5-mini","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}]}]}`, `"input_tokens":`, "estimated"},
		{"for another model", `{"model":"llama",` + text + `}`, `"input_tokens":`, "estimated"},
		{"of a text that is too long", `{"model":"gpt-5-mini","messages":[{"role":"user","content":"` + strings.Repeat("word ", 300_000) + `"}]}`, `"input_tokens":`, "estimated"},
	} {
		got := g.Do(t, gateway.Call{Path: "/v1/messages/count_tokens", Body: c.body, Header: []string{"anthropic-version: 2023-06-01"}})
		if got.Status != http.StatusOK || !strings.Contains(got.Body, c.want) || got.Header.Get("X-Bardo-Degraded") != c.degraded {
			t.Errorf("%s: %d %s, degraded %q", c.about, got.Status, got.Body, got.Header.Get("X-Bardo-Degraded"))
		}
	}
}

// TestB01Tokenize: the tokens of a prompt, at both paths; what is not known is refused, and not guessed.
func TestB01Tokenize(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	model := gateway.Model{ID: "gpt-5-mini", Price: "{input: 1, output: 2}"}
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: append(models("llama", ""), model)}}})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/tokenize", `{"model":"gpt-5-mini","prompt":"Hello world"}`, http.StatusOK, `"tokens":[13225,2375]}`},
		{"/v1/tokenize", `{"model":"gpt-5-mini","prompt":"Hello world","return_token_strs":true}`, http.StatusOK, `"tokens":[13225,2375],"token_strs":["Hello","Ġworld"]}`},
		{"/tokenize", `{"model":"llama","prompt":"Hello world"}`, http.StatusNotFound, `"code":"model_not_found"`},
		{"/tokenize", `{"model":"gpt-5-mini","messages":[{"role":"user","content":"hi"}]}`, http.StatusBadRequest, `"param":"messages"`},
		{"/tokenize", `{"model":"gpt-5-mini","prompt":"` + strings.Repeat("word ", 300_000) + `"}`, http.StatusRequestEntityTooLarge, `"code":"request_too_large"`},
	} {
		got := g.Do(t, gateway.Call{Path: c.path, Body: c.body})
		if got.Status != c.status || !strings.Contains(got.Body, c.want) {
			t.Errorf("%.80s: %d %s, want %d %s", c.body, got.Status, got.Body, c.status, c.want)
		}
	}
	if got := g.Do(t, gateway.Call{Path: "/tokenize", Body: `{"model":"gpt-5-mini","prompt":"x"}`, Key: "bardo_sk_wrong"}); got.Status != http.StatusUnauthorized {
		t.Errorf("with a wrong key: %d %s", got.Status, got.Body)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("%d calls of the provider", n)
	}
}
