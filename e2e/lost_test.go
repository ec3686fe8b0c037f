package e2e

import (
	"slices"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

// TestWhatAnAnswerLosesIsNamed: what the client's format has no words for is named, in the header of an answer in one piece
// and in the record of every one. A client that reads the provider's own format loses nothing.
func TestWhatAnAnswerLosesIsNamed(t *testing.T) {
	t.Parallel()
	g, o, n := byteGateway(t)
	o.Behave(fake.Behaviour{Extra: `"citations":["https://a.example"]`})
	n.Behave(fake.Behaviour{Stop: "pause_turn"})
	for _, r := range []struct {
		name string
		a    ask
		want []string
	}{
		{"an Anthropic client of an OpenAI provider", ask{dialect: fake.Anthropic, model: "gpt-x"}, []string{"citations"}},
		{"its stream", ask{dialect: fake.Anthropic, model: "gpt-x", stream: true}, []string{"citations"}},
		{"an OpenAI client of an Anthropic provider", ask{dialect: fake.OpenAI, model: "claude-x"}, []string{"pause_turn"}},
		{"its stream", ask{dialect: fake.OpenAI, model: "claude-x", stream: true}, []string{"pause_turn"}},
		{"the same format", ask{dialect: fake.OpenAI, model: "gpt-x"}, nil},
		{"the same format, streamed", ask{dialect: fake.Anthropic, model: "claude-x", stream: true}, nil},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := g.Do(t, r.a.call())
			text(t, r.a, got)
			want := ""
			if !r.a.stream && r.want != nil {
				want = r.want[0]
			}
			if said := got.Header.Get("X-Bardo-Degraded"); said != want {
				t.Errorf("the header says %q, want %q", said, want)
			}
			if rec := recordOf(t, g, got); !slices.Equal(rec.Degraded, r.want) {
				t.Errorf("the record says %v, want %v", rec.Degraded, r.want)
			}
		})
	}
}
