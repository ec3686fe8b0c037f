package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Ollama serves open models on the operator's machine: it needs no key, and its prices are those of the configuration
// (docs.ollama.com/api/openai-compatibility). It ignores members that it does not list there.
var Ollama = Adapter{
	kind: kind.Kind{
		Name: "ollama", Doc: "Ollama: open models on a machine of the operator's.", BaseURL: "http://localhost:11434/v1", Variables: []string{"OLLAMA_API_KEY"},
		Keyless: true,
	},
	options: maxTokens,
	refuses: []string{"logit_bias", "user", "n"},
	embeds:  true,
}
