package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Groq returns 400 for logprobs, logit_bias and top_logprobs (console.groq.com/docs/openai).
var Groq = Adapter{
	kind: kind.Kind{
		Name: "groq", Doc: "Groq: open models, on the operator's key.", BaseURL: "https://api.groq.com/openai/v1", Variables: []string{"GROQ_API_KEY"},
		Endpoints: []kind.Endpoint{kind.Speech, kind.Transcription, kind.Translation},
	},
	refuses: []string{"logprobs", "top_logprobs", "logit_bias"},
}
