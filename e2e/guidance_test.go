package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/jsonx"
)

// promptMembers are the members that hold a prompt, in the formats of providers.
var promptMembers = []string{"messages", "system", "instructions", "input", "contents", "systemInstruction"}

// promptOf is the prompt that a provider was sent, member by member.
func promptOf(t *testing.T, s *fake.Server) string {
	t.Helper()
	r := lastOf(t, s)
	doc, err := jsonx.Scan(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range promptMembers {
		if v := doc.Get(name); v.Exists() {
			fmt.Fprintf(&b, "%s: %s\n", name, v.Raw)
		}
	}
	return b.String()
}

// thinkingParameters are the ways in which clients of a format say how hard to think. %s is what else stands in a generationConfig.
var thinkingParameters = map[shaper][]string{
	"openai": {
		`"reasoning_effort":"none"`, `"reasoning_effort":"high"`, `"thinking":{"type":"disabled"}`, `"reasoning":{"effort":"high"}`,
		`"reasoning":{"enabled":false}`,
	},
	"anthropic": {`"thinking":{"type":"disabled"}`, `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`},
	"responses": {`"reasoning":{"effort":"none"}`, `"reasoning":{"effort":"high"}`},
	"gemini": {
		`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}`,
		`"generationConfig":{"thinkingConfig":{"thinkingBudget":20000}}`,
	},
}

type thinkingCase struct {
	model  string
	server *fake.Server
}

// TestD86AClientsThinkingParameterAddsNoWords: whatever a client says about thinking, to a model without a parameter for it, the prompt
// is the same as without; a subsystem whose profile says how hard to think has its guidance written.
func TestD86AClientsThinkingParameterAddsNoWords(t *testing.T) {
	t.Parallel()
	openai := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Allow: []string{"thinking", "reasoning", "reasoning_effort", "top_k", "min_p"}})
	anthropic, gemini := fake.Start(t, fake.Config{Dialect: fake.Anthropic}), fake.Start(t, fake.Config{Dialect: fake.Gemini})
	blockrun := fake.Start(t, fake.Config{Vendor: fake.BlockRun, Allow: []string{"thinking"}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "o", Fake: openai, Models: []gateway.Model{
			{ID: "uncontrolled", More: "thinking: {control: none}, capabilities: [tools, structured_outputs]"},
			{ID: "slashed", More: "thinking: {control: slash}, capabilities: [tools, structured_outputs]"},
			{ID: "undescribed"},
		}},
		{ID: "a", Fake: anthropic, Format: "anthropic", Models: []gateway.Model{{ID: "thoughtless", More: "reasoning: none, capabilities: [tools]"}}},
		{ID: "g", Fake: gemini, Format: "gemini", Models: []gateway.Model{{ID: "gem", More: "reasoning: none, capabilities: [tools]"}}},
		{ID: "blockrun", Fake: blockrun, Models: []gateway.Model{{ID: "qwen3-235b-a22b", Upstream: "qwen/qwen3-235b"}, {ID: "mystery", Upstream: "acme/mystery", More: "capabilities: [tools]"}}},
	}})
	for _, at := range []thinkingCase{
		{"o/uncontrolled", openai},
		{"o/slashed", openai},
		{"o/undescribed", openai},
		{"a/thoughtless", anthropic},
		{"g/gem", gemini},
		{"blockrun/qwen3-235b-a22b", blockrun},
		{"blockrun/mystery", blockrun},
	} {
		for _, client := range shapers {
			for _, stream := range []bool{false, true} {
				for _, hint := range []string{"X-Bardo-Pipeline: minimal", "X-Bardo-Pipeline: standard", "X-Bardo-Quality: high"} {
					t.Run(fmt.Sprintf("%s/%s/stream=%v/%s", at.model, client, stream, hint), func(t *testing.T) { checkNoWordsAdded(t, g, client, at, stream, hint) })
				}
			}
		}
	}
	t.Run("beside a schema", func(t *testing.T) {
		schema := shaper("openai").schema("person", plainSchema)
		g.Do(t, shaper("openai").call("o/uncontrolled", false, "hi", schema))
		plain := promptOf(t, openai)
		got := g.Do(t, shaper("openai").call("o/uncontrolled", false, "hi", schema+`,"reasoning_effort":"high"`))
		if p := promptOf(t, openai); p != plain || got.Status != http.StatusOK {
			t.Errorf("%d: the prompt is %s, want %s", got.Status, p, plain)
		}
		if d := got.Header.Get("X-Bardo-Degraded"); d != "reasoning_effort" {
			t.Errorf("degraded: %q", d)
		}
	})
	t.Run("a profile says so", func(t *testing.T) {
		for header, words := range map[string]string{
			"X-Bardo-Subsystem: dream_rem": "step by step", "X-Bardo-Subsystem: mind_wandering": "Answer directly", `X-Bardo-Profile: {"reasoning_effort":"high"}`: "step by step",
		} {
			got := g.Do(t, shaper("openai").call("o/uncontrolled", false, "hi", "", header))
			if p := promptOf(t, openai); got.Status != http.StatusOK || !strings.Contains(p, words) {
				t.Errorf("%s: %d, it is sent %s", header, got.Status, p)
			}
			if d := got.Header.Get("X-Bardo-Degraded"); !strings.Contains(d, "->prompt") {
				t.Errorf("%s: degraded: %q", header, d)
			}
		}
	})
}

func checkNoWordsAdded(t *testing.T, g *gateway.Gateway, client shaper, at thinkingCase, stream bool, hint string) {
	t.Helper()
	if got := g.Do(t, client.call(at.model, stream, t.Name(), "", hint)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	plain := promptOf(t, at.server)
	if strings.Contains(plain, "step by step") || strings.Contains(plain, "/think") {
		t.Errorf("without a word from the client it is sent %s", plain)
	}
	for _, says := range thinkingParameters[client] {
		got := g.Do(t, client.call(at.model, stream, t.Name(), says, hint))
		if got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", says, got.Status, got.Body)
		}
		if p := promptOf(t, at.server); p != plain {
			t.Errorf("%s makes the prompt\n%s\nof\n%s", says, p, plain)
		}
	}
}
