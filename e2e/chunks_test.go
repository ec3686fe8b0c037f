package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestAGeminiTurnInChunksIsOneBlock: what a model of Gemini's format streams in many chunks is one block to a Messages client, and a Gemini
// client that gives back a content for each chunk that it read, as google-genai does, sends one block of text to a provider of another format.
func TestAGeminiTurnInChunksIsOneBlock(t *testing.T) {
	t.Parallel()
	google, claude := fake.Start(t, fake.Config{Dialect: fake.Gemini}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "g", Fake: google, Format: "gemini", Models: []gateway.Model{{ID: "flash"}}},
		{ID: "c", Fake: claude, Format: "anthropic", Models: []gateway.Model{{ID: "opus"}}},
	}})

	google.Behave(fake.Behaviour{Tokens: 12})
	a := ask{dialect: fake.Anthropic, model: "flash", stream: true}
	got := g.Do(t, a.call())
	if n := strings.Count(got.Body, "event: content_block_start"); n != 1 || !strings.HasPrefix(text(t, a, got), "tok0 tok1 ") {
		t.Errorf("%d blocks: %s", n, got.Body)
	}

	claude.Behave(fake.Behaviour{Tokens: 12})
	got = g.Do(t, ask{dialect: fake.Gemini, model: "opus", stream: true}.call())
	var chunks []string
	for _, ev := range got.Events(t) {
		var chunk struct {
			Candidates []struct{ Content json.RawMessage }
		}
		if json.Unmarshal([]byte(ev.Data), &chunk) == nil && len(chunk.Candidates) == 1 {
			chunks = append(chunks, string(chunk.Candidates[0].Content))
		}
	}
	if len(chunks) < 12 {
		t.Fatalf("%d chunks in %s", len(chunks), got.Body)
	}
	got = g.Do(t, gateway.Call{Path: geminiPath("opus", false), Body: `{"contents":[{"role":"user","parts":[{"text":"hi"}]},` + strings.Join(chunks, ",") +
		`,{"role":"user","parts":[{"text":"more"}]}]}`})
	last := lastOf(t, claude)
	const want = `{"role":"assistant","content":[{"type":"text","text":"tok0 tok1 tok2 tok3 tok4 tok5 tok6 tok7 tok8 tok9 tok10 tok11 "}]}`
	if got.Status != http.StatusOK || !strings.Contains(string(last.Body), want) {
		t.Errorf("%d %s\nwas asked %s\nwant %s", got.Status, got.Body, last.Body, want)
	}
}
