package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// DeepInfra serves open models under their Hugging Face names, at /v1/openai (deepinfra.com/docs/advanced/openai_api).
var DeepInfra = Adapter{
	kind: kind.Kind{
		Name: "deepinfra", Doc: "DeepInfra: open models, on the operator's key.", BaseURL: "https://api.deepinfra.com/v1/openai", Variables: []string{"DEEPINFRA_API_KEY"},
		Endpoints: []kind.Endpoint{kind.ImageGeneration, kind.Speech, kind.Transcription, kind.Translation},
	},
	options: openModels,
	embeds:  true,
}
