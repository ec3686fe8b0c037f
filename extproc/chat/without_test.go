package chat_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestParametersNamedByARefusal(t *testing.T) {
	p := &chat.Profile{Default: chat.Params{MinP: "0.1", Temperature: "0.9", Effort: "high"}, Locked: chat.Params{TopK: "40"}}
	for _, row := range []struct {
		about string
		e     chat.ProviderError
		want  []string
	}{
		{"its parameter", chat.ProviderError{Param: "min_p", Message: "Unknown parameter: 'min_p'."}, []string{"min_p"}},
		{"a member of it", chat.ProviderError{Param: "reasoning.effort", Message: "no"}, []string{"effort"}},
		{"its words", chat.ProviderError{Message: "Unsupported value: 'temperature' does not support 0.9 with this model."}, []string{"temperature"}},
		{"several", chat.ProviderError{Message: "extra fields not permitted: min_p, top_k"}, []string{"top_k", "min_p"}},
		{"another word that holds one", chat.ProviderError{Message: "min_price is too low, max_temperature too"}, nil},
		{"what the profile does not say", chat.ProviderError{Param: "seed"}, nil},
		{"something else", chat.ProviderError{Param: "messages", Message: "temperature of the debate is too high"}, nil},
		{"nothing", chat.ProviderError{}, nil},
	} {
		if got := p.Refused(&row.e); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.about, got, row.want)
		}
	}
	if got := (*chat.Profile)(nil).Refused(&chat.ProviderError{Param: "min_p"}); got != nil {
		t.Errorf("no profile: %q", got)
	}
}

func TestAProfileWithoutRefusedParameters(t *testing.T) {
	p := &chat.Profile{Default: chat.Params{MinP: "0.1", Temperature: "0.9", Effort: "high"}, Locked: chat.Params{TopK: "40", ThinkingBudget: 9}}
	less := p.Without([]string{"min_p", "top_k", "effort"})
	if d, l := less.Default, less.Locked; d.MinP != "" || d.Temperature != "0.9" || d.Effort != "" || l.TopK != "" || l.ThinkingBudget != 0 {
		t.Errorf("got %+v", less)
	}
	if p.Default.MinP != "0.1" || p.Locked.TopK != "40" || p.Without(nil) != p {
		t.Error("the profile itself changed")
	}
}
