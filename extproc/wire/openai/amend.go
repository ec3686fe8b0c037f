package openai

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Amend returns the resolution for another attempt after a provider of this format refused a request: without the history's
// reasoning_details, which clients send back as other models returned them. ok is false if the error is about something else, or if they
// were already removed.
func Amend(to policy.Resolution, e *chat.ProviderError) (amended policy.Resolution, ok bool) {
	refused := e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	if !refused || to.Without.Thinking || !namesReasoning(e.Param+" "+e.Message) {
		return to, false
	}
	to.Without.Thinking = true
	return to, true
}

// AmendEffort returns the resolution for another attempt after one of OpenAI's own models, at any provider, refused thinking with
// functions, which newer models support only in Responses: without thinking. ok is false if a client of this format itself requests both,
// because the error names the API that supports them.
func AmendEffort(req *chat.Request, to policy.Resolution, e *chat.ProviderError) (amended policy.Resolution, ok bool) {
	message := strings.ToLower(e.Message)
	if e.Status != http.StatusBadRequest || to.Without.Effort || !strings.Contains(message, "function tools with "+keyEffort) {
		return to, false
	}
	if req.Dialect == chat.OpenAI && req.HasThinking() {
		return to, false
	}
	to.Without.Effort = true
	return to, true
}

// namesReasoning reports whether an error is about a reasoning member: messages[2].reasoning. Others than OpenAI name it after a role, or
// alone, and may also refer to one that is missing.
func namesReasoning(message string) bool {
	return strings.Contains(message, keyDetails) || strings.Contains(message, "]."+keyReasoning) ||
		isUnknown(message) && (strings.Contains(message, keyReasoningContent) || strings.Contains(message, "'"+keyReasoning+"'") || strings.Contains(message, "assistant."+keyReasoning))
}
