package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Perplexity answers from web searches. Since September 2026 its models are served only in Responses, as its Agent API
// (docs.perplexity.ai/docs/agent-api), so clients of all formats are translated to it.
var Perplexity = Adapter{
	kind: kind.Kind{
		Name: "perplexity", Doc: "Perplexity: answers out of searches, on the operator's key.", BaseURL: "https://api.perplexity.ai/v1", Variables: []string{"PERPLEXITY_API_KEY"},
		Responses: true,
	},
}
