package compatible

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Groq returns 400 for logprobs, logit_bias and top_logprobs (console.groq.com/docs/openai).
var Groq = Adapter{
	kind: kind.Kind{
		Name: "groq", Doc: "Groq: open models, on the operator's key.", BaseURL: "https://api.groq.com/openai/v1", Variables: []string{"GROQ_API_KEY"},
		Endpoints: []kind.Endpoint{kind.Speech, kind.Transcription, kind.Translation},
	},
	options: func(o *openai.RequestOptions, _ *chat.Request, to *policy.Resolution) {
		o.KeepReasoning, o.ReasoningContent = !to.Without.Thinking, openai.NoReasoningContent
	},
	refuses: []string{"logprobs", "top_logprobs", "logit_bias"},
}
