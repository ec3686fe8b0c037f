package reasoning_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

func record(to policy.Resolution, u chat.Usage, events ...chat.Event) reasoning.Chain {
	r := reasoning.NewRecorder(reasoning.Of(kind.Reasoning{}, &to, chat.OpenAI), &to)
	for i := range events {
		r.Add(&events[i])
	}
	return r.Chain(&u)
}

func thought(index int, text string) chat.Event {
	return chat.Event{Kind: chat.Thought, Index: index, Text: []byte(text)}
}

func TestChainsOfAnswers(t *testing.T) {
	text, called := chat.Event{Kind: chat.Text, Text: []byte("Hi")}, chat.Event{Kind: chat.ToolStart}
	details := func(kind string) chat.Event {
		return chat.Event{Kind: chat.Extra, ID: "reasoning_details", Text: []byte(`[{"type":"` + kind + `"}]`)}
	}
	for _, row := range []struct {
		about       string
		u           chat.Usage
		events      []chat.Event
		shows       reasoning.Visibility
		content     string
		tokens      int64
		interleaved bool
	}{
		{"nothing", chat.Usage{Output: 9}, []chat.Event{text, called}, reasoning.None, "", 0, false},
		{"counts alone", chat.Usage{Output: 9, Reasoning: 5}, []chat.Event{text}, reasoning.Opaque, "", 5, false},
		{"a redacted block", chat.Usage{}, []chat.Event{{Kind: chat.Redacted, Text: []byte("x")}}, reasoning.Opaque, "", 0, false},
		{"thoughts, in pieces", chat.Usage{Output: 90, Reasoning: 5}, []chat.Event{thought(0, "Hm"), thought(0, ", so"), text}, reasoning.Visible, "Hm, so", 5, false},
		{"blocks of them, around a call", chat.Usage{Output: 90, Reasoning: 5}, []chat.Event{thought(0, "Hm"), called, thought(2, "So")}, reasoning.Visible, "Hm\n\nSo", 5, true},
		{"a summary, by its details", chat.Usage{Output: 90, Reasoning: 5}, []chat.Event{details("reasoning.summary"), thought(0, "Hm")}, reasoning.Summarized, "Hm", 5, false},
		{"D-42 what nobody counted", chat.Usage{Output: 90}, []chat.Event{thought(0, "twelve bytes")}, reasoning.Visible, "twelve bytes", 3, false},
		{"D-42 it is a part of the output", chat.Usage{Output: 2}, []chat.Event{thought(0, "twelve bytes")}, reasoning.Visible, "twelve bytes", 2, false},
	} {
		c := record(policy.Resolution{Provider: "p", Model: "m"}, row.u, row.events...)
		content := ""
		if c.Content != nil {
			content = *c.Content
		}
		if c.Visibility != row.shows || content != row.content || (c.Content == nil) != (content == "") || c.Tokens != row.tokens || c.Interleaved != row.interleaved {
			t.Errorf("%s: %+v %q", row.about, c, content)
		}
		if c.Cost.Tokens != row.tokens || c.Cost.Discount != 1 || !c.Cost.BilledAsOutput || c.Provider != "p" || c.Model != "m" || c.Estimated != (row.tokens > 0 && row.u.Reasoning == 0) {
			t.Errorf("%s: %+v", row.about, c)
		}
	}
}

// TestD43BilledAsOutputAndDiscount: BilledAsOutput depends on how the provider reports usage; no provider has a discount.
func TestD43BilledAsOutputAndDiscount(t *testing.T) {
	for family, want := range map[string]bool{"claude": true, "deepseek": true, "qwen": true, "gpt": false, "gemini": false} {
		c := record(policy.Resolution{Family: family}, chat.Usage{Reasoning: 3, Output: 9})
		if c.Cost != (reasoning.Cost{Tokens: 3, BilledAsOutput: want, Discount: 1}) {
			t.Errorf("%s: %+v", family, c.Cost)
		}
	}
}

func TestRecordedReasoningIsBounded(t *testing.T) {
	piece := strings.Repeat("é", 1000)
	var events []chat.Event
	for i := range 1000 {
		events = append(events, thought(i, piece))
	}
	c := record(policy.Resolution{}, chat.Usage{Output: 1 << 30}, events...)
	if n := len(*c.Content); n > 1<<20 || n < 1<<20-4 || !c.Truncated || c.Tokens != 500_000 || strings.ContainsRune(*c.Content, '\uFFFD') {
		t.Errorf("%d bytes, %d tokens, truncated %v", n, c.Tokens, c.Truncated)
	}
}
