package anthropic

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Amend returns the resolution for another attempt after a provider of this format refused a request: without the history's thinking if the
// provider refused that, or without the beta features that it does not know. ok is false if the error is about something else, or if that
// was already removed.
func Amend(req *chat.Request, to policy.Resolution, e *chat.ProviderError) (amended policy.Resolution, ok bool) {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return to, false
	}
	message := strings.ToLower(e.Message)
	if !to.Without.Thinking && refusesThinking(message) {
		to.Without.Thinking = true
		return to, true
	}
	if flags := refusedBetas(req, to.Without.Betas, message); len(flags) > 0 {
		to.Without.Betas = slices.Concat(to.Without.Betas, flags)
		return to, true
	}
	return to, false
}

// thinkingWords are parts of the API's error messages, in lower case, about thinking in the history: a signature is missing or invalid, a
// block was changed, a turn that uses tools does not start with thinking, or it has thinking while thinking is off.
var thinkingWords = []string{"signature", "cannot be modified", "expected `thinking`", "must start with a thinking block", "cannot contain `thinking`"}

func refusesThinking(message string) bool {
	return strings.Contains(message, "thinking") &&
		slices.ContainsFunc(thinkingWords, func(w string) bool { return strings.Contains(message, w) })
}

// refusedBetas returns the client's flags that the provider's error names; all of them if it names none.
func refusedBetas(req *chat.Request, removed []string, message string) []string {
	if req.Dialect != chat.Anthropic || !strings.Contains(message, "anthropic-beta") && !strings.Contains(message, "beta flag") {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(req.Betas), func(flag string) bool { return slices.Contains(removed, flag) })
	named := slices.DeleteFunc(slices.Clone(left), func(flag string) bool { return !strings.Contains(message, strings.ToLower(flag)) })
	if len(named) > 0 {
		return named
	}
	return left
}
