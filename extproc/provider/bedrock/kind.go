package bedrock

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:        a.Name(),
		Section:     kind.HostSection,
		Doc:         "Amazon Bedrock: models of many vendors in one region, with a Bedrock API key or AWS credentials.",
		BaseURL:     "https://bedrock-mantle." + kind.Region + ".api.aws",
		Variables:   []string{"AWS_BEARER_TOKEN_BEDROCK"},
		Format:      "openai",
		AnyModel:    true,
		PromptCache: kind.PromptCache{OfVendor: true},
		Traits:      kind.Traits{Lacks: []policy.Feature{policy.PredictedOutputs, policy.BatchAPI, policy.ResponsesAPI, policy.DirectPassthrough}},
	}
}
