// Package openai calls OpenAI's own API, or a compatible server, in Chat Completions, and in Responses for clients of Responses and for
// models that require it. Clients of other dialects are translated. It does not know where keys come from.
package openai

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/formats"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "openai". The zero value is ready.
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is "openai".
func (Adapter) Name() string { return "openai" }

// Dialect is Chat Completions, except: Responses for its clients and for models that require it, if the endpoint has that API; embeddings
// for its clients; the legacy completions for their clients and the models that support them.
func (Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	if at.Responses && responses.Serves(&to, d) {
		return chat.Responses
	}
	if d == chat.Embeddings && embeddings.Serves(&to) || d == chat.Completions && completions.Serves(&to) {
		return d
	}
	return chat.OpenAI
}

// Encode writes a call in the format that Dialect returns.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if call, ok, err := formats.NewCall(a.Dialect(to, at, req.Dialect), buf, req, &to, at); ok {
		return call, err
	}
	if req.Op == chat.CountTokens {
		return nil, fault.New(fault.InvalidRequest, "this provider's format cannot count tokens", nil)
	}
	o := wire.RequestOptions{
		Model:    cmp.Or(to.Upstream, string(to.Model)),
		CacheKey: true, Predictions: slices.Contains(to.Features, policy.PredictedOutputs),
		Video: slices.Contains(to.Features, policy.Video), Extras: wire.OpenAIExtras,
	}
	o.ForOpenAIModels(req, to)
	if o.NoDetails = to.Without.Thinking; o.NoDetails {
		o.ReasoningContent = wire.NoReasoningContent
	}
	o.Control(to.Control, wire.ReasoningEffort)
	if p := req.Profile; p != nil && p.Default.WebSearch != nil && *p.Default.WebSearch && slices.Contains(to.Features, policy.WebSearch) {
		o.WebSearch = true
		o.Members = append(o.Members, wire.Member{Key: "web_search_options", Value: jsonx.Raw("{}")})
	}
	return wire.NewCall(buf, req, at, o)
}

// Amend returns the resolution for another attempt without what the API refused: reasoning of other models, thinking with functions, or
// summaries.
func (a Adapter) Amend(req *chat.Request, to policy.Resolution, at provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	switch {
	case req.Dialect == chat.Responses:
		return wire.Amend(to, refusal)
	case a.Dialect(to, at, req.Dialect) == chat.Responses:
		return responses.Amend(to, refusal)
	}
	if amended, ok := wire.AmendEffort(req, to, refusal); ok {
		return amended, true
	}
	return wire.Amend(to, refusal)
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h)
}

// Relay implements provider.Relay.
func (Adapter) Relay(e kind.Endpoint, _ string, at provider.Endpoint) *provider.Call {
	return wire.Relay(e, at)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
