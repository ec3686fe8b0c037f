package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Mistral calls a seed random_seed and the limit of an answer max_tokens, and refuses members that it does not know (docs.mistral.ai/api).
var Mistral = Adapter{
	kind: kind.Kind{
		Name: "mistral", Doc: "Mistral, on the operator's key.", BaseURL: "https://api.mistral.ai/v1", Variables: []string{"MISTRAL_API_KEY"},
	},
	options: maxTokens,
	renames: []rename{{"seed", "random_seed"}},
	refuses: []string{"logprobs", "top_logprobs", "logit_bias", "user", "store", "service_tier", "verbosity"},
	embeds:  true,
}
