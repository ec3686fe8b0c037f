package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Ollama serves open models on a machine of the operator's: it needs no key, and costs what the configuration says (docs.ollama.com/api/openai-compatibility).
// What it does not list there, it ignores.
var Ollama = Adapter{
	kind: kind.Kind{
		Name: "ollama", Doc: "Ollama: open models on a machine of the operator's.", BaseURL: "http://localhost:11434/v1", Variables: []string{"OLLAMA_API_KEY"},
		Keyless: true,
	},
	options: maxTokens,
	refuses: []string{"logit_bias", "user", "n"},
	embeds:  true,
}
