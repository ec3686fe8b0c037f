package anthropic

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Amend says how a provider of this format may be asked once more after it refused a request: without the history's
// thinking where that is what it refused, and without the beta features that it does not know. ok is false where its words
// are about something else, or where that has been left out already.
func Amend(req *chat.Request, to policy.Resolution, e *chat.ProviderError) (again policy.Resolution, ok bool) {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return to, false
	}
	words := strings.ToLower(e.Message)
	if !to.Without.Thinking && refusesThinking(words) {
		to.Without.Thinking = true
		return to, true
	}
	if flags := refusedBetas(req, to.Without.Betas, words); len(flags) > 0 {
		to.Without.Betas = slices.Concat(to.Without.Betas, flags)
		return to, true
	}
	return to, false
}

// thinkingWords are what the API says, in lower case, when it does not take a history's thinking: a signature is not its
// own or is missing, a block was changed, a turn that uses tools did not begin with one, or has some and thinking is off.
var thinkingWords = []string{"signature", "cannot be modified", "expected `thinking`", "must start with a thinking block", "cannot contain `thinking`"}

func refusesThinking(words string) bool {
	return strings.Contains(words, "thinking") &&
		slices.ContainsFunc(thinkingWords, func(w string) bool { return strings.Contains(words, w) })
}

// refusedBetas are the client's flags that the provider names as unknown; all of them if it names none.
func refusedBetas(req *chat.Request, gone []string, words string) []string {
	if req.Dialect != chat.Anthropic || !strings.Contains(words, "anthropic-beta") && !strings.Contains(words, "beta flag") {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(req.Betas), func(flag string) bool { return slices.Contains(gone, flag) })
	named := slices.DeleteFunc(slices.Clone(left), func(flag string) bool { return !strings.Contains(words, strings.ToLower(flag)) })
	if len(named) > 0 {
		return named
	}
	return left
}
