package openai

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Amend says how a provider of this format may be asked once more after it refused a request: without the history's
// reasoning_details, which clients give back as they got them from other models. ok is false where its words are about something
// else, or where they have been left out already.
func Amend(to policy.Resolution, e *chat.ProviderError) (again policy.Resolution, ok bool) {
	refused := e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	if !refused || to.Without.Thinking || !namesReasoning(e.Param+" "+e.Message) {
		return to, false
	}
	to.Without.Thinking = true
	return to, true
}

// namesReasoning reports whether words are about one of the members: messages[2].reasoning.
func namesReasoning(words string) bool {
	return strings.Contains(words, keyDetails) || strings.Contains(words, "]."+keyReasoning)
}
