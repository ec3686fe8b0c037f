package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// piiLab is a gateway that masks, before a provider with every endpoint.
func piiLab(t *testing.T, more string) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free + fmt.Sprintf(`
pipeline: {pii: {policy: mask%s}}
providers:
  openai: {api_key: %s, base_url: %q}
  together: {api_key: %s, base_url: %q}
`, more, p.Key, p.URL, p.Key, p.URL)})
	return g, p
}

// lastCall is the last request at any endpoint.
func lastCall(t *testing.T, p *fake.Server) fake.Request {
	t.Helper()
	calls := p.Calls()
	if len(calls) == 0 {
		t.Fatal("no request reached the provider")
	}
	return calls[len(calls)-1]
}

// TestF01WhateverCarriesTextIsMasked: no endpoint sends a value to a provider, and what comes back is restored where it is text.
func TestF01WhateverCarriesTextIsMasked(t *testing.T) {
	t.Parallel()
	g, p := piiLab(t, "")
	for name, row := range map[string]struct {
		call   gateway.Call
		answer string // of the provider, with %s for the placeholder; "": its own
		want   string // of the client
	}{
		"embeddings": {modalityCall(t, "/v1/embeddings", `{"model":"text-embedding-3-small","input":["write to jane@example.com"]}`), "", ""},
		"a completion": {
			modalityCall(t, "/v1/completions", `{"model":"gpt-3.5-turbo-instruct","prompt":"write to jane@example.com"}`),
			`{"id":"cmpl-1","object":"text_completion","created":1,"model":"gpt-3.5-turbo-instruct","choices":[{"text":"To %s: hi","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
			`"text":"To jane@example.com: hi"`,
		},
		"a moderation": {modalityCall(t, "/v1/moderations", `{"model":"omni-moderation-latest","input":"write to jane@example.com"}`), "", `"flagged"`},
		"a ranking": {
			modalityCall(t, "/v1/rerank", `{"model":"Salesforce/Llama-Rank-V1","query":"q","documents":["jane@example.com"],"return_documents":true}`),
			"",
			`{"text":"jane@example.com"}`,
		},
		"a transcription": {
			modalityCall(t, "/v1/audio/transcriptions", "", "file@1", "model=whisper-1", "prompt=It mentions jane@example.com"),
			"", `"Hello. It mentions jane@example.com"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.Behave(fake.Behaviour{})
			p.Forget()
			got := g.Do(t, row.call)
			if did := got.Header.Get("X-Bardo-Pipeline"); got.Status != http.StatusOK || !strings.Contains(did, "masked;email=1") {
				t.Fatalf("%d, %q, %s", got.Status, did, got.Body)
			}
			sent := string(lastCall(t, p).Body)
			holder := placeholder.FindString(sent)
			if holder == "" || strings.Contains(sent, "jane@") {
				t.Fatalf("the provider sees %s", sent)
			}
			if row.answer == "" {
				if row.want != "" && !strings.Contains(got.Body, row.want) {
					t.Errorf("the client got %s", got.Body)
				}
				return
			}
			p.Behave(fake.Behaviour{Raw: &fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: fmt.Sprintf(row.answer, holder)}})
			if got = g.Do(t, row.call); got.Status != http.StatusOK || !strings.Contains(got.Body, row.want) {
				t.Errorf("%d, the client got %s", got.Status, got.Body)
			}
		})
	}
	g.AssertSound(t)
}

// TestF01WhatCannotBeMaskedIsRefused, with an error that says what to do, or sent where the operator says so.
func TestF01WhatCannotBeMaskedIsRefused(t *testing.T) {
	t.Parallel()
	g, p := piiLab(t, "")
	lenient, q := piiLab(t, ", refuse_unread: none")
	for name, c := range map[string]gateway.Call{
		"tokens to embed":    modalityCall(t, "/v1/embeddings", `{"model":"text-embedding-3-small","input":[1212,318]}`),
		"tokens to complete": modalityCall(t, "/v1/completions", `{"model":"gpt-3.5-turbo-instruct","prompt":[1212,318]}`),
	} {
		if got := g.Do(t, c); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"invalid_request"`) || !strings.Contains(got.Body, "send the text") {
			t.Errorf("%s: %d, %s", name, got.Status, got.Body)
		}
		if got := lenient.Do(t, c); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "unread=1") {
			t.Errorf("%s, where it may pass: %d, %v, %s", name, got.Status, got.Header, got.Body)
		}
	}
	for name, c := range map[string]gateway.Call{
		"speech":    modalityCall(t, "/v1/audio/speech", `{"model":"tts-1","input":"write to jane@example.com","voice":"alloy"}`),
		"a picture": modalityCall(t, "/v1/images/generations", `{"model":"dall-e-3","prompt":"a card for jane@example.com"}`),
	} {
		if got := g.Do(t, c); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"secret_in_prompt"`) || strings.Contains(got.Body, "jane@") {
			t.Errorf("%s: %d, %s", name, got.Status, got.Body)
		}
	}
	if n := len(p.Calls()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	if n := len(q.Calls()); n != 2 {
		t.Errorf("the provider that may see tokens was called %d times", n)
	}
	if got := g.Do(t, modalityCall(t, "/v1/images/edits", "", "model=gpt-image-1", "image[]@", "prompt=more cat", "quality=low")); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "unread=1") {
		t.Errorf("a picture that is sent: %d, %v", got.Status, got.Header)
	}
}
