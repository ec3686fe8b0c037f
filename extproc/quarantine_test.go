package extproc

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

func TestWhichRefusalsSayThatAModelIsGone(t *testing.T) {
	to := &policy.Resolution{Upstream: "acme/nova-9"}
	for _, row := range []struct {
		about string
		f     failure
		want  bool
	}{
		{"OpenAI", failure{status: 404, err: &chat.ProviderError{Code: "model_not_found", Message: "The model `x` does not exist"}}, true},
		{"Anthropic", failure{status: 404, err: &chat.ProviderError{Type: "not_found_error", Message: "model: claude-x"}}, true},
		{"OpenRouter", failure{status: 404, err: &chat.ProviderError{Message: "No endpoints found for x."}}, true},
		{"Venice", failure{status: 404, err: &chat.ProviderError{Message: "Specified model not found"}}, true},
		{"one that names it", failure{status: 404, err: &chat.ProviderError{Message: "Acme/Nova-9 was retired"}}, true},
		{"gone", failure{status: 410}, true},
		{"a path that is not there", failure{status: 404, err: &chat.ProviderError{Message: "Invalid URL (POST /v1/chat/completions)"}}, false},
		{"nothing said", failure{status: 404}, false},
		{"another status", failure{status: 400, err: &chat.ProviderError{Code: "model_not_found"}}, false},
		{"a limit", failure{status: 429, err: &chat.ProviderError{Message: "model is overloaded"}}, false},
		{"no answer", failure{kind: failTimeout}, false},
	} {
		if got := row.f.modelGone(to); got != row.want {
			t.Errorf("%s: gone is %v", row.about, got)
		}
		if row.want && row.f.result().Outcome != policy.Ignored {
			t.Errorf("%s: counts against the provider's health", row.about)
		}
	}
}
