// Package openai calls OpenAI's own API, or a server that stands in for it, in Chat Completions. Clients of other
// dialects are translated. It knows nothing of where keys come from.
package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "openai".
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is "openai".
func (Adapter) Name() string { return "openai" }

// Dialect is OpenAI's, whatever the client speaks.
func (Adapter) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect {
	return chat.OpenAI
}

// Encode writes a Chat Completions call.
func (Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if req.Op == chat.CountTokens {
		return nil, fault.New(fault.InvalidRequest, "this provider's format cannot count tokens", nil)
	}
	o := wire.RequestOptions{Model: to.Upstream, MaxStop: maxStop}
	if o.Model == "" {
		o.Model = string(to.Model)
	}
	efforts, reasons := wire.Reasoner(to, o.Model)
	o.NoEffort, o.Efforts = !reasons, efforts
	o.FixedSampling = to.FixedSampling || reasons && req.Dialect != chat.OpenAI // most take them with an effort of none
	if reasons || to.FixedSampling || req.Dialect != chat.OpenAI {
		o.TokensField = wire.MaxCompletionTokens
	}
	return wire.NewCall(buf, req, at, o)
}

// NewDecoder reads the answer of such a call.
func (Adapter) NewDecoder(req *chat.Request, _ policy.Resolution, _ provider.Endpoint, status int, h header.List) provider.Decoder {
	return wire.NewDecoder(req, status, h)
}

// maxStop is how many stop sequences the API takes.
const maxStop = 4

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
