// Package bankr calls Bankr, which serves models of several vendors, paid from the earnings of a wallet: Claude in Anthropic's format, all
// others in OpenAI's. It knows nothing of the wallet.
package bankr

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/dual"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "bankr". The zero value is ready.
type Adapter struct{ dual.Formats }

var (
	_ provider.Adapter  = Adapter{}
	_ provider.Amender  = Adapter{}
	_ provider.Charging = Adapter{}
)

// Name is "bankr".
func (Adapter) Name() string { return "bankr" }

// Families of models with special rules.
const (
	gpt = "gpt"
	o   = "o"
)

// efforts are those of models for which the catalog lists none.
var efforts = []string{"none", "low", "medium", "high"}

// Encode writes a call in the format of the model's family. Bankr forwards parameters unchanged, so the rules of the family apply.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if a.Dialect(to, at, req.Dialect) == chat.Anthropic {
		return anthropic.NewCall(buf, req, to, at, anthropic.StripUnsigned)
	}
	opts := openai.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), FixedSampling: to.FixedSampling, Video: slices.Contains(to.Features, policy.Video),
		Extras: openai.OpenAIExtras,
	}
	switch to.Family {
	case gpt, o:
		opts.ForOpenAIModels(req, to)
	default:
		opts.Efforts = to.Efforts
		if len(opts.Efforts) == 0 {
			opts.Efforts = efforts
		}
	}
	opts.Broker(to.Control, openai.ReasoningEffort)
	return openai.NewCall(buf, req, at, opts)
}
