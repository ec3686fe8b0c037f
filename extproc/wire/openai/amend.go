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

// AmendEffort says how OpenAI's own models, whoever serves them, may be asked once more that refused to think beside functions, which
// newer ones do only in Responses: without thinking. ok is false where the client of this format asks for both itself: the refusal tells
// it where it can have them.
func AmendEffort(req *chat.Request, to policy.Resolution, e *chat.ProviderError) (again policy.Resolution, ok bool) {
	words := strings.ToLower(e.Message)
	if e.Status != http.StatusBadRequest || to.Without.Effort || !strings.Contains(words, "function tools with "+keyEffort) {
		return to, false
	}
	if req.Dialect == chat.OpenAI && req.SaysThinking() {
		return to, false
	}
	to.Without.Effort = true
	return to, true
}

// namesReasoning reports whether words are about one of the members: messages[2].reasoning.
func namesReasoning(words string) bool {
	return strings.Contains(words, keyDetails) || strings.Contains(words, "]."+keyReasoning)
}
