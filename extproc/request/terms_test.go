package request

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
)

// D-87: the maximum tokens of a call limit the charge for it.
func TestD87TheMostTokensOfACall(t *testing.T) {
	rt := runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"p": {Adapter: anthropic.Adapter{}}})}
	thinking := &chat.Profile{Default: chat.Params{Effort: "high"}}
	to := policy.Resolution{Provider: "p", Context: 10_000, MaxOutput: 1_000}
	unknown := policy.Resolution{Provider: "p"}
	for _, row := range []struct {
		about string
		req   chat.Request
		to    policy.Resolution
		want  int64
	}{
		{"the window and the model's limit", chat.Request{}, to, 11_000},
		{"the client's own limit", chat.Request{MaxTokens: 200}, to, 10_200},
		{"several choices", chat.Request{MaxTokens: 200, Choices: 3}, to, 10_600},
		{"a model that nobody described", chat.Request{}, unknown, 2 * unknownWindow},
		{"embeddings: every text has a window of its own", chat.Request{Op: chat.Embed, MaxInput: 50_000}, to, 50_000},
		{"prompts: each has a window of its own", chat.Request{Dialect: chat.Completions, MaxInput: 50_000, MaxTokens: 200}, to, 50_200},
		{"a prompt that is shorter than the window", chat.Request{Dialect: chat.Completions, MaxInput: 30, MaxTokens: 200}, to, 230},
	} {
		v := View{Config: &rt}
		v.Request = &row.req
		if got := v.MaxCallTokens(&row.to); got != row.want {
			t.Errorf("%s: %d, want %d", row.about, got, row.want)
		}
	}
	t.Run("thinking that a profile asks for comes on top of the client's limit", func(t *testing.T) {
		v := View{Config: &rt}
		v.Request = &chat.Request{MaxTokens: 200, Profile: thinking}
		if added := v.ThinkingTokens([]policy.Resolution{to}); added == 0 || v.MaxCallTokens(&to) != int64(10_200+added) {
			t.Errorf("%d with %d for thinking", v.MaxCallTokens(&to), added)
		}
	})
}
