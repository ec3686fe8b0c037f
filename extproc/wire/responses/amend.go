package responses

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Amend says how a provider of this format may be asked once more for a client of another, after it refused a request: without a summary of
// what the model thinks, which it makes for organizations alone that it knows, or without the history's encrypted reasoning, which another
// may have made. ok is false where its words are about something else, or where that has been left out already.
func Amend(to policy.Resolution, e *chat.ProviderError) (again policy.Resolution, ok bool) {
	if e.Status != http.StatusBadRequest {
		return to, false
	}
	words := strings.ToLower(e.Param + " " + e.Code + " " + e.Message)
	switch {
	case !to.Without.Summary && (strings.Contains(words, "reasoning.summary") || strings.Contains(words, "reasoning summar")):
		to.Without.Summary = true
	case !to.Without.Thinking && (strings.Contains(words, "encrypted_content") || strings.Contains(words, "encrypted content")):
		to.Without.Thinking = true
	default:
		return to, false
	}
	return to, true
}
