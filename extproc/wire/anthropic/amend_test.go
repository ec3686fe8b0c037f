package anthropic_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/policy"
)

func TestK16AndK85AmendAfterARefusal(t *testing.T) {
	var none policy.Without
	thinking := policy.Without{Thinking: true}
	flags := []string{"old-2024-01-01", "new-2026-01-01"}
	for _, r := range []struct {
		name, message string
		status        int
		before        policy.Without
		want          policy.Without
	}{
		{"another's signature", "messages.1.content.0: Invalid `signature` in `thinking` block", 400, none, thinking},
		{"the same, wrapped by a proxy", `{"type":"error","error":{"message":"messages.3.content.13: Invalid signature in thinking block"}}`, 400, none, thinking},
		{"no signature", "messages.1.content.0.thinking.signature: Field required", 400, none, thinking},
		{"by a server of another make", "messages.1.content.0.thinking.signature: Field required", 422, none, thinking},
		{"a changed block", "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", 400, none, thinking},
		{"a turn that did not begin with it", "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", 400, none, thinking},
		{"it was left out already", "messages.1.content.0: Invalid `signature` in `thinking` block", 400, thinking, thinking},
		{"something else about thinking", "`max_tokens` must be greater than `thinking.budget_tokens`.", 400, none, none},
		{"another signature", "Invalid signature of the request", 400, none, none},
		{"not a refusal", "Invalid `signature` in `thinking` block", 500, none, none},
		{"an unknown flag", "Unexpected value(s) `new-2026-01-01` for the `anthropic-beta` header. Please consult our documentation", 400, none, policy.Without{Betas: flags[1:]}},
		{"all of them", "invalid beta flag", 400, none, policy.Without{Betas: flags}},
		{"the rest of them", "invalid beta flag", 400, policy.Without{Betas: flags[1:]}, policy.Without{Betas: []string{flags[1], flags[0]}}},
		{"they are gone already", "invalid beta flag", 400, policy.Without{Betas: flags}, policy.Without{Betas: flags}},
		{"a flag that is wanted", "speed: this needs the new-2026-01-01 feature", 400, none, none},
	} {
		req := &chat.Request{Dialect: chat.Anthropic, Betas: flags}
		got, ok := anthropic.Amend(req, policy.Resolution{Without: r.before}, &chat.ProviderError{Status: r.status, Message: r.message})
		if w := got.Without; w.Thinking != r.want.Thinking || !slices.Equal(w.Betas, r.want.Betas) {
			t.Errorf("%s: got %+v, want %+v", r.name, w, r.want)
		}
		if changed := r.before.Thinking != r.want.Thinking || len(r.before.Betas) != len(r.want.Betas); ok != changed {
			t.Errorf("%s: asks again: %v", r.name, ok)
		}
	}
}

func TestK85ClientsOfOtherDialectsHaveNoFlags(t *testing.T) {
	e := &chat.ProviderError{Status: 400, Message: "invalid beta flag"}
	if got, ok := anthropic.Amend(&chat.Request{Dialect: chat.OpenAI, Betas: []string{"x"}}, policy.Resolution{}, e); ok {
		t.Errorf("got %+v", got.Without)
	}
}

// FuzzAmend: whatever the provider's error, the request is repeated at most once for thinking and once for each flag.
func FuzzAmend(f *testing.F) {
	f.Add("messages.1.content.0: Invalid `signature` in `thinking` block", "a-2025-01-01")
	f.Add("Unexpected value(s) `b` for the `anthropic-beta` header; thinking signature", "b")
	f.Fuzz(func(t *testing.T, message, flag string) {
		req := &chat.Request{Dialect: chat.Anthropic, Betas: []string{flag, "other"}}
		to, ok := policy.Resolution{}, true
		for n := 0; ok; n++ {
			if n > 3 {
				t.Fatalf("%q is amended for ever: %+v", message, to.Without)
			}
			to, ok = anthropic.Amend(req, to, &chat.ProviderError{Status: 400, Message: message})
		}
	})
}
