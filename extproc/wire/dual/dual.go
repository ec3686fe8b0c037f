// Package dual is shared by adapters of providers that serve Claude in Anthropic's format and all other models in OpenAI's. It knows no
// provider, and does not write calls.
package dual

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Claude is the family of models that is called in Anthropic's format.
const Claude = "claude"

// Formats is the part of such an adapter that depends on the format only. The zero value is ready.
type Formats struct{}

// Dialect is Anthropic's for Claude, else OpenAI's.
func (Formats) Dialect(to policy.Resolution, _ provider.Endpoint, _ chat.Dialect) chat.Dialect {
	if to.Family == Claude {
		return chat.Anthropic
	}
	return chat.OpenAI
}

// Amend returns the resolution for another attempt without what the provider refused: thinking, beta features, or thinking with functions.
func (Formats) Amend(req *chat.Request, to policy.Resolution, _ provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	if to.Family != Claude {
		return openai.AmendEffort(req, to, refusal)
	}
	return anthropic.Amend(req, to, refusal)
}

// NewDecoder reads the answer of a call.
func (f Formats) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return formats.NewDecoder(f.Dialect(to, at, req.Dialect), req, status, h)
}

// Ping lists the provider's models.
func (Formats) Ping(at provider.Endpoint) *provider.Call { return openai.Ping(at) }
