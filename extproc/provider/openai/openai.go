// Package openai calls OpenAI's own API, or a server that stands in for it, in Chat Completions, and in Responses for clients of that and
// for models that are served in it alone. Clients of other dialects are translated. It knows nothing of where keys come from.
package openai

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "openai".
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is "openai".
func (Adapter) Name() string { return "openai" }

// Dialect is Chat Completions, whatever the client speaks, but for clients of Responses, and models that are served in it alone, where
// that is spoken, for clients of embeddings, and for models that complete a prompt.
func (Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	if at.Responses && responses.Serves(&to, d) {
		return chat.Responses
	}
	if d == chat.Embeddings && embeddings.At(&to) || d == chat.Completions && completions.Listed(&to) {
		return d
	}
	return chat.OpenAI
}

// Encode writes a call in the format that Dialect says.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return embeddings.NewCall(buf, req, &to, at), nil
	case chat.Completions:
		return completions.NewCall(buf, req, &to, at), nil
	case chat.Responses:
		return responses.NewCall(buf, req, at, responses.Options(to))
	}
	if req.Op == chat.CountTokens {
		return nil, fault.New(fault.InvalidRequest, "this provider's format cannot count tokens", nil)
	}
	o := wire.RequestOptions{
		Model:    cmp.Or(to.Upstream, string(to.Model)),
		CacheKey: true, Predictions: slices.Contains(to.Features, policy.PredictedOutputs),
		Video: slices.Contains(to.Features, policy.Video),
	}
	o.OfOpenAI(req, to)
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

// Amend leaves out what clients give back of other models' reasoning, which the API refuses, thinking beside functions, and summaries that
// it does not make.
func (a Adapter) Amend(req *chat.Request, to policy.Resolution, at provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	switch {
	case req.Dialect == chat.Responses:
		return wire.Amend(to, refusal)
	case a.Dialect(to, at, req.Dialect) == chat.Responses:
		return responses.Amend(to, refusal)
	}
	if again, ok := wire.AmendEffort(req, to, refusal); ok {
		return again, true
	}
	return wire.Amend(to, refusal)
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return embeddings.NewDecoder(req, status, h)
	case chat.Completions:
		return completions.NewDecoder(req, status, h)
	case chat.Responses:
		return responses.NewDecoder(req, status, h)
	}
	return wire.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
