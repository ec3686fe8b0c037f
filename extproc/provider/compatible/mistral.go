package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Mistral calls seed random_seed, limits answers with max_tokens, and refuses unknown members (docs.mistral.ai/api), include_usage among them: the
// last chunk of a stream always has the usage.
var Mistral = Adapter{
	kind: kind.Kind{
		Name: "mistral", Doc: "Mistral, on the operator's key.", BaseURL: "https://api.mistral.ai/v1", Variables: []string{"MISTRAL_API_KEY"},
		Endpoints: []kind.Endpoint{kind.Moderations, kind.Transcription},
	},
	options: maxTokens,
	renames: []rename{{"seed", "random_seed"}},
	refuses: []string{"logprobs", "top_logprobs", "logit_bias", "user", "store", "service_tier", "verbosity", streamOptions},
	embeds:  true,
}
