// Package anthropic calls Anthropic's own API, and compatible servers.
package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter speaks the Messages API. The zero value is ready.
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is the provider's kind.
func (Adapter) Name() string { return "anthropic" }

// Dialect is always Anthropic's.
func (Adapter) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect {
	return chat.Anthropic
}

// Encode writes one attempt. The API accepts thinking only with a signature of one of its own models.
func (Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	call, err := wire.NewCall(buf, req, to, at, wire.StripUnsigned)
	if err != nil {
		return nil, err
	}
	wire.Interleave(call, req, to)
	return call, nil
}

// Amend returns the resolution for another attempt without the thinking or the beta features that the API refused.
func (Adapter) Amend(req *chat.Request, to policy.Resolution, _ provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	return wire.Amend(req, to, refusal)
}

// NewDecoder reads the answer of such a call.
func (Adapter) NewDecoder(req *chat.Request, _ policy.Resolution, _ provider.Endpoint, status int, h header.List) provider.Decoder {
	return message.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
