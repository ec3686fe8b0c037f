package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Together serves open models, with the parameters of their servers (docs.together.ai).
var Together = Adapter{
	kind: kind.Kind{
		Name: "together", Doc: "Together AI: open models, on the operator's key.", BaseURL: "https://api.together.xyz/v1", Variables: []string{"TOGETHER_API_KEY"},
		Endpoints: []kind.Endpoint{kind.Rerank, kind.ImageGeneration, kind.Speech, kind.Transcription, kind.Translation},
	},
	options: openModels,
	embeds:  true,
}
