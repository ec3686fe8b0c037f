// Package google calls Google's own Gemini API, or a compatible server, with generateContent. Clients of other dialects are translated. It
// does not know where keys come from.
package google

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "google". The zero value is ready.
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is "google".
func (Adapter) Name() string { return "google" }

// Dialect is Gemini's, whatever the client speaks.
func (Adapter) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect {
	return chat.Gemini
}

// Encode writes a generateContent call.
func (Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	return wire.NewCall(buf, req, to, at)
}

// Amend returns the resolution for another attempt without the signatures that the API refused.
func (Adapter) Amend(_ *chat.Request, to policy.Resolution, _ provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	return wire.Amend(to, refusal)
}

// NewDecoder reads the answer of such a call.
func (Adapter) NewDecoder(req *chat.Request, _ policy.Resolution, _ provider.Endpoint, status int, h header.List) provider.Decoder {
	return wire.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
