package e2e

import (
	"encoding/json"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestS12HowDeepEachPartThinks: what an explanation says of it, and what the provider is told.
func TestS12HowDeepEachPartThinks(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "openai", Allow: []string{"reasoning_effort"}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "thinker", Fake: p, Models: []gateway.Model{
		{ID: "m", Price: "{input: 1, output: 2}", More: "quality: maximum, reasoning: auto, capabilities: [visible_thinking, tools], thinking: {control: effort}"},
	}, More: "private: true"}}})
	const low = "X-Bardo-Vitality: 0.25"
	for _, row := range []struct {
		about  string
		more   string
		header []string
		want   reasoned
		told   string // reasoning_effort
	}{
		{"a client that says nothing", "", nil, reasoned{Depth: "default"}, ""},
		{"a private client that says nothing else", "", []string{"X-Bardo-Security-Class: private"}, reasoned{Depth: "default"}, ""},
		{"a part that nobody described", "", []string{"X-Bardo-Subsystem: tail_wagging"}, reasoned{Depth: "medium"}, "medium"},
		{"a private one", "", []string{"X-Bardo-Subsystem: tail_wagging", "X-Bardo-Security-Class: private"}, reasoned{Depth: "high"}, "high"},
		{"one that declines", "", []string{"X-Bardo-Subsystem: tail_wagging", low}, reasoned{Depth: "low"}, "low"},
		{"one whose client says it", `"reasoning_effort":"high"`, []string{"X-Bardo-Subsystem: tail_wagging"}, reasoned{Depth: "high"}, "high"},
		{"a dream", "", []string{"X-Bardo-Subsystem: dream_rem"}, reasoned{Depth: "high", Visible: true}, "high"},
		{"a dream that declines", "", []string{"X-Bardo-Subsystem: dream_rem", low}, reasoned{Depth: "medium", Visible: true}, "medium"},
		{"the operator", "", []string{"X-Bardo-Subsystem: operator", low}, reasoned{Depth: "high", Interleaved: true}, "high"},
		{"the operator, whatever its client says", `"reasoning_effort":"low"`, []string{"X-Bardo-Subsystem: operator"}, reasoned{Depth: "high", Interleaved: true}, "high"},
	} {
		t.Run(row.about, func(t *testing.T) {
			a := ask{dialect: fake.OpenAI, model: "m", more: row.more}
			if got := explained(t, g, a.call(row.header...)).Reasoning; got != row.want {
				t.Errorf("explained as %+v, want %+v", got, row.want)
			}
			before := len(p.Generations())
			served(t, g, a, row.header...)
			var told struct {
				Effort string `json:"reasoning_effort"`
			}
			if err := json.Unmarshal(p.Generations()[before].Body, &told); err != nil {
				t.Fatal(err)
			}
			if told.Effort != row.told {
				t.Errorf("the provider was told %q, want %q", told.Effort, row.told)
			}
		})
	}
}
