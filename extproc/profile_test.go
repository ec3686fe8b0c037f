package extproc

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	anthropicprovider "bardo.money/gateway/extproc/provider/anthropic"
	openaiprovider "bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// TestTimeOutsKnowThatAProfileHasAModelThink: as if the client had requested it, unless it sets reasoning itself.
func TestTimeOutsKnowThatAProfileHasAModelThink(t *testing.T) {
	for _, row := range []struct {
		more         string
		profile      chat.Profile
		thinks, high bool
	}{
		{"", chat.Profile{Default: chat.Params{Effort: "none"}}, false, false},
		{"", chat.Profile{Default: chat.Params{Effort: "low"}}, true, false},
		{"", chat.Profile{Default: chat.Params{Effort: "high"}}, true, true},
		{`"reasoning_effort":"none",`, chat.Profile{Default: chat.Params{Effort: "high"}}, false, false},
		{`"reasoning_effort":"none",`, chat.Profile{Locked: chat.Params{Effort: "max"}}, true, true},
		{`"reasoning_effort":"high",`, chat.Profile{Default: chat.Params{Effort: "none"}}, true, true},
	} {
		r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m",`+row.more+`"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Profile = &row.profile
		if request.MarkThinking(r); r.Thinking != row.thinks || r.HighEffort != row.high {
			t.Errorf("%s with %q and %q thinks: %v, hard: %v", row.more, row.profile.Default.Effort, row.profile.Locked.Effort, r.Thinking, r.HighEffort)
		}
	}
}

// TestD50TheWorstCaseKnowsOfThinkingThatAProfileAsksFor: only if thinking has a budget that is added to the answer's limit.
func TestD50TheWorstCaseKnowsOfThinkingThatAProfileAsksFor(t *testing.T) {
	rt := &runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"a": {Adapter: anthropicprovider.Adapter{}}, "o": {Adapter: openaiprovider.Adapter{}}})}
	hard := &chat.Profile{Default: chat.Params{Effort: "high"}}
	for _, row := range []struct {
		more       string
		profile    *chat.Profile
		candidates []policy.Resolution
		want       int
	}{
		{"", nil, []policy.Resolution{{Provider: "a"}}, 0},
		{"", hard, []policy.Resolution{{Provider: "o"}}, 0},
		{"", hard, []policy.Resolution{{Provider: "o"}, {Provider: "a"}}, 16384},
		{"", hard, []policy.Resolution{{Provider: "a", AdaptiveThinking: true}}, 0},
		{"", hard, []policy.Resolution{{Provider: "a", Reasoning: "none"}}, 0},
		{`"reasoning_effort":"low",`, hard, []policy.Resolution{{Provider: "a"}}, 0},
		{"", &chat.Profile{Locked: chat.Params{Effort: "max"}}, []policy.Resolution{{Provider: "a"}}, 65536},
	} {
		r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m",`+row.more+`"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Profile = row.profile
		x := &exchange{View: request.View{Config: rt}}
		x.initReport(&Gateway{})
		x.Request = r
		if got := x.ThinkingTokens(row.candidates); got != row.want {
			t.Errorf("%s by %v: %d, want %d", row.more, row.candidates, got, row.want)
		}
	}
}
