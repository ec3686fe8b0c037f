package compatible

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// XAI serves Grok. Its reasoning models refuse penalties and stop sequences, and efforts, unless the catalog lists those that a model accepts
// (docs.x.ai).
var XAI = Adapter{
	kind: kind.Kind{
		Name: "xai", Doc: "xAI: Grok, on the operator's key.", BaseURL: "https://api.x.ai/v1", Variables: []string{"XAI_API_KEY"},
		Endpoints: []kind.Endpoint{kind.ImageGeneration},
	},
	options: func(o *openai.RequestOptions, _ *chat.Request, to *policy.Resolution) {
		o.NoEffort = len(to.Efforts) == 0
	},
	reasoners: []string{"presence_penalty", "frequency_penalty", "stop"},
}
