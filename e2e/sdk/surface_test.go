package sdk

import (
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD44SDKsTakeWhatStandsBesideAnAnswer: the reasoning beside an answer breaks none of the official SDKs, whole, streamed and through
// their own helpers; OpenAI's and Anthropic's hand it to their users.
func TestD44SDKsTakeWhatStandsBesideAnAnswer(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	for _, p := range []struct {
		id     string
		format fake.Dialect
		more   string
	}{{"like-openai", fake.OpenAI, ""}, {"like-anthropic", fake.Anthropic, ""}, {"like-responses", fake.OpenAI, "responses: true"}, {"like-gemini", fake.Gemini, ""}} {
		f := fake.Start(t, fake.Config{Dialect: p.format, Name: p.id})
		f.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "let me think"}}, Usage: &fake.Usage{Input: 10, Output: 20, Reasoning: 12}})
		o.Providers = append(o.Providers, gateway.Provider{ID: p.id, Fake: f, Format: string(p.format), Models: []gateway.Model{{ID: p.id}}, More: p.more})
	}
	g := gateway.Run(t, o)
	for name, argv := range map[string][]string{"python": python("surface_driver.py")(t), "node": node("surface_driver.cjs")(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustDrive(t, argv, access(g)...)
		})
	}
}
