package openai

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Amend says how a provider of this format may be asked once more after it refused a request: without the history's
// reasoning_details, which clients give back as they got them from other models. ok is false where its words are about something
// else, or where they have been left out already.
func Amend(to policy.Resolution, e *chat.ProviderError) (again policy.Resolution, ok bool) {
	refused := e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	if !refused || to.Without.Thinking || !strings.Contains(e.Param+e.Message, keyDetails) {
		return to, false
	}
	to.Without.Thinking = true
	return to, true
}

// dropDetails takes the reasoning_details out of a history. All other bytes stay.
func dropDetails(e *jsonx.Edits, d *jsonx.Doc) (lost []string) {
	for _, m := range d.Get("messages").Each {
		if m.Get(keyDetails).Exists() {
			wire.CutMember(e, d, m, keyDetails)
			lost = []string{keyDetails}
		}
	}
	return lost
}
