package upstream_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

func TestWhichRefusalsSayThatAModelIsGone(t *testing.T) {
	to := &policy.Resolution{Upstream: "acme/nova-9"}
	for _, row := range []struct {
		about string
		f     upstream.Failure
		want  bool
	}{
		{"OpenAI", upstream.Failure{Status: 404, Err: &chat.ProviderError{Code: "model_not_found", Message: "The model `x` does not exist"}}, true},
		{"Anthropic", upstream.Failure{Status: 404, Err: &chat.ProviderError{Type: "not_found_error", Message: "model: claude-x"}}, true},
		{"OpenRouter", upstream.Failure{Status: 404, Err: &chat.ProviderError{Message: "No endpoints found for x."}}, true},
		{"Venice", upstream.Failure{Status: 404, Err: &chat.ProviderError{Message: "Specified model not found"}}, true},
		{"one that names it", upstream.Failure{Status: 404, Err: &chat.ProviderError{Message: "Acme/Nova-9 was retired"}}, true},
		{"gone", upstream.Failure{Status: 410}, true},
		{"a path that is not there", upstream.Failure{Status: 404, Err: &chat.ProviderError{Message: "Invalid URL (POST /v1/chat/completions)"}}, false},
		{"nothing said", upstream.Failure{Status: 404}, false},
		{"another status", upstream.Failure{Status: 400, Err: &chat.ProviderError{Code: "model_not_found"}}, false},
		{"a limit", upstream.Failure{Status: 429, Err: &chat.ProviderError{Message: "model is overloaded"}}, false},
		{"no answer", upstream.Failure{Kind: upstream.TimedOut}, false},
	} {
		if got := row.f.ModelMissing(to); got != row.want {
			t.Errorf("%s: gone is %v", row.about, got)
		}
		if row.want && row.f.Result().Outcome != policy.Ignored {
			t.Errorf("%s: counts against the provider's health", row.about)
		}
	}
}
