package compatible

import (
	"bardo.money/gateway/internal/kind"
)

// Fireworks serves open models, whose names begin with accounts/ (docs.fireworks.ai).
var Fireworks = Adapter{
	kind: kind.Kind{
		Name: "fireworks", Doc: "Fireworks AI: open models, on the operator's key.", BaseURL: "https://api.fireworks.ai/inference/v1", Variables: []string{"FIREWORKS_API_KEY"},
	},
	options: openModels,
	embeds:  true,
}
