package runtime

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// UnservedReason returns why a candidate does not serve the request's endpoint: its model has another purpose, or its provider lacks the endpoint; ""
// if it does. X-Bardo-Route: explain shows it.
func (rt *Config) UnservedReason(req *chat.Request, to *policy.Resolution) string {
	p, ok := rt.Find(to.Provider)
	switch {
	case !ok:
	case req.Op == chat.Embed && p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) != req.Dialect:
		return "the model makes no embeddings there"
	case req.TurnError != nil && p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) != req.Dialect:
		return "chat completions have no equivalent of what the request asks for"
	case req.Op == chat.Embed, req.Op == chat.Modality:
	case slices.Contains(to.Features, policy.Embeddings):
		return "the model makes embeddings alone"
	case policy.Special(to.Features) != "":
		return "the model is for " + string(policy.Special(to.Features)) + " alone"
	}
	return ""
}
