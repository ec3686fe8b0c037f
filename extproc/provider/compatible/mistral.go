package compatible

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Mistral calls seed random_seed, limits answers with max_tokens, and refuses unknown members (docs.mistral.ai/api), include_usage among them: the
// last chunk of a stream always has the usage.
var Mistral = Adapter{
	kind: kind.Kind{
		Name: "mistral", Doc: "Mistral, on the operator's key.", BaseURL: "https://api.mistral.ai/v1", Variables: []string{"MISTRAL_API_KEY"},
		Endpoints: []kind.Endpoint{kind.Moderations, kind.Transcription},
	},
	options: func(o *openai.RequestOptions, _ *chat.Request, _ *policy.Resolution) {
		o.TokensField, o.ReasoningContent = openai.MaxTokens, openai.NoReasoningContent
	},
	renames: []rename{{"seed", "random_seed"}},
	refuses: []string{"logprobs", "top_logprobs", "logit_bias", "user", "store", "service_tier", "verbosity", streamOptions},
	embeds:  true,
}
