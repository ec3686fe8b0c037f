package compatible

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Cerebras returns 400 for penalties, logit_bias, parallel_tool_calls and service_tier (inference-docs.cerebras.ai/resources/openai).
var Cerebras = Adapter{
	kind: kind.Kind{
		Name: "cerebras", Doc: "Cerebras: open models, on the operator's key.", BaseURL: "https://api.cerebras.ai/v1", Variables: []string{"CEREBRAS_API_KEY"},
	},
	options: func(o *openai.RequestOptions, _ *chat.Request, to *policy.Resolution) {
		o.TokensField, o.KeepReasoning, o.ReasoningContent = openai.MaxCompletionTokens, !to.Without.Thinking, openai.NoReasoningContent
	},
	refuses: []string{"frequency_penalty", "presence_penalty", "logit_bias", "parallel_tool_calls", "service_tier"},
}
