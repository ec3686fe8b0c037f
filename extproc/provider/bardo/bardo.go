// Package bardo calls another gateway of this kind, such as an origin behind the gateways of several regions, in the format of each client. The other
// gateway reports what a call cost.
package bardo

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Name is the kind of provider, the format of custom providers in the configuration, and the form of its list of models.
const Name = "bardo"

// Adapter is the provider of kind "bardo". The zero value is ready.
type Adapter struct{}

var (
	_ provider.Described = Adapter{}
	_ provider.Charging  = Adapter{}
	_ provider.Gateway   = Adapter{}
	_ provider.Relay     = Adapter{}
)

// Name is "bardo".
func (Adapter) Name() string { return Name }

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name: a.Name(), List: Name, Responses: true, CacheControl: true, CountsTokens: true,
		Endpoints: slices.DeleteFunc(kind.Endpoints(), func(e kind.Endpoint) bool { return e == kind.Sealed || e == kind.Realtime }),
	}
}

// IsGateway implements provider.Gateway.
func (Adapter) IsGateway() {}

// Dialect is the client's own format. The exceptions are embeddings of a model that has none, and prompts that the other gateway refused as such.
func (Adapter) Dialect(to policy.Resolution, _ provider.Endpoint, d chat.Dialect) chat.Dialect {
	if d == "" || d == chat.Embeddings && !embeddings.Serves(&to) || d == chat.Completions && to.Without.Completions {
		return chat.OpenAI
	}
	return d
}

// Encode writes a call in the client's format.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	switch d := a.Dialect(to, at, req.Dialect); d {
	case chat.Anthropic:
		return anthropic.NewCall(buf, req, to, at, anthropic.StripNothing)
	case chat.Gemini:
		return gemini.NewCall(buf, req, to, ofGemini(at))
	default:
		if call, ok, err := formats.NewCall(d, buf, req, &to, at); ok {
			return call, err
		}
	}
	o := openai.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), Efforts: to.Efforts,
		CacheKey: true, Predictions: true, CacheControl: true, MinCache: to.MinCache, ReasoningDetails: true, Video: true,
	}
	o.Control(policy.ControlEffort, openai.ReasoningEffort)
	return openai.NewCall(buf, req, at, o)
}

// ofGemini returns the endpoint with the version of Gemini's paths instead of the one of the others.
func ofGemini(at provider.Endpoint) provider.Endpoint {
	at.BasePath = strings.TrimSuffix(at.BasePath, "/v1") + "/v1beta"
	return at
}

// Charges are those of each format. The other gateway prices the rest.
func (Adapter) Charges(_ *policy.Resolution, _ provider.Endpoint, d chat.Dialect) provider.Charges {
	switch d { //nolint:exhaustive // the rest is OpenAI's
	case chat.Anthropic:
		return anthropic.Charges
	case chat.Responses:
		return responses.Charges
	case chat.Gemini:
		return gemini.Charges
	}
	return openai.Charges
}

// NewDecoder reads the answer to a call, and its cost.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return newDecoder(formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h), h)
}

// Relay implements provider.Relay.
func (Adapter) Relay(e kind.Endpoint, _ string, at provider.Endpoint) *provider.Call {
	return openai.Relay(e, at)
}

// Ping lists the gateway's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return openai.Ping(at) }
