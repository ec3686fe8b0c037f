package compatible

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// XAI serves Grok. Its models that reason refuse penalties and stop sequences, and an effort unless the catalog lists those that they take (docs.x.ai).
var XAI = Adapter{
	kind: kind.Kind{
		Name: "xai", Doc: "xAI: Grok, on the operator's key.", BaseURL: "https://api.x.ai/v1", Variables: []string{"XAI_API_KEY"},
	},
	options: func(o *openai.RequestOptions, _ *chat.Request, to *policy.Resolution) {
		o.NoEffort = len(to.Efforts) == 0
	},
	reasoners: []string{"presence_penalty", "frequency_penalty", "stop"},
}
