package responses

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Amend returns the resolution for another attempt on behalf of a client of another dialect, after a provider of this format refused a
// request: without a summary of the reasoning, which only verified organizations get, or without the history's encrypted reasoning, which
// may have been issued to another organization. ok is false if the error is about something else, or if that was already removed.
func Amend(to policy.Resolution, e *chat.ProviderError) (amended policy.Resolution, ok bool) {
	if e.Status != http.StatusBadRequest {
		return to, false
	}
	message := strings.ToLower(e.Param + " " + e.Code + " " + e.Message)
	switch {
	case !to.Without.Summary && (strings.Contains(message, "reasoning.summary") || strings.Contains(message, "reasoning summar")):
		to.Without.Summary = true
	case !to.Without.Thinking && (strings.Contains(message, "encrypted_content") || strings.Contains(message, "encrypted content")):
		to.Without.Thinking = true
	default:
		return to, false
	}
	return to, true
}
