// Package custom calls a server of the operator's choice in its configured format: OpenAI's (vLLM and most other servers), Anthropic's or
// Gemini's. It needs no key, and does not know where keys come from.
package custom

import (
	"cmp"
	"slices"

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

// Adapter is the provider of kind "custom". The zero value is ready.
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is "custom".
func (Adapter) Name() string { return "custom" }

// Dialect is the endpoint's configured format; the default is OpenAI's. A server of OpenAI's format is called in Responses, if it has that
// API, for clients of Responses and for models that require it; in embeddings for clients of embeddings; and in the legacy completions for
// their clients, unless the server is known to lack that endpoint.
func (Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	switch {
	case at.Dialect == chat.Anthropic, at.Dialect == chat.Gemini:
		return at.Dialect
	case d == chat.Embeddings && embeddings.Serves(&to):
		return chat.Embeddings
	case at.Responses && responses.Serves(&to, d):
		return chat.Responses
	case d == chat.Completions && !at.NoCompletions && !to.Without.Completions:
		return chat.Completions
	}
	return chat.OpenAI
}

// Encode writes a call in the endpoint's format. The token limit keeps the client's member name, unless the model is known to refuse it.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are OpenAI's
	case chat.Anthropic:
		return anthropic.NewCall(buf, req, to, at, anthropic.StripNothing) // only the server knows how it treats thinking
	case chat.Gemini:
		return gemini.NewCall(buf, req, to, at)
	}
	if call, ok, err := formats.NewCall(a.Dialect(to, at, req.Dialect), buf, req, &to, at); ok {
		return call, err
	}
	o := openai.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), FixedSampling: to.FixedSampling, CacheControl: at.CacheControl, MinCache: to.MinCache,
		NoDetails: to.Without.Thinking, Video: slices.Contains(to.Features, policy.Video),
	}
	if to.Without.Extras {
		o.Extras = openai.StrictExtras
	}
	if to.Without.Thinking {
		o.ReasoningContent = openai.NoReasoningContent
	}
	o.Efforts = to.Efforts
	o.Control(to.Control, openai.ReasoningEffort)
	if o.Reasoning == openai.TemplateThinking || o.Reasoning == openai.SlashThinking { // an open model behind a server such as vLLM
		o.TopK, o.MinP = true, true
	}
	if to.FixedSampling { // such models refuse max_tokens as well
		o.TokensField = openai.MaxCompletionTokens
	}
	return openai.NewCall(buf, req, at, o)
}

// Amend returns the resolution for another attempt without the thinking, signatures or beta features that the server refused.
func (a Adapter) Amend(req *chat.Request, to policy.Resolution, at provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are no provider's
	case chat.Responses:
		if req.Dialect != chat.Responses { // its clients send their own parameters
			return responses.Amend(to, refusal)
		}
	case chat.Anthropic:
		return anthropic.Amend(req, to, refusal)
	case chat.Gemini:
		return gemini.Amend(to, refusal)
	case chat.OpenAI:
		if amended, ok := openai.Amend(to, refusal); ok {
			return amended, true
		}
		return openai.AmendExtras(to, refusal)
	}
	return to, false
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h)
}

// Relay implements provider.Relay: a server of OpenAI's format may have any of these endpoints.
func (a Adapter) Relay(e kind.Endpoint, _ string, at provider.Endpoint) *provider.Call {
	if at.Dialect == chat.Anthropic || at.Dialect == chat.Gemini {
		return nil
	}
	return openai.Relay(e, at)
}

// Ping lists the server's models.
func (a Adapter) Ping(at provider.Endpoint) *provider.Call {
	switch a.Dialect(policy.Resolution{}, at, "") { //nolint:exhaustive // the others are OpenAI's
	case chat.Anthropic:
		return anthropic.Ping(at)
	case chat.Gemini:
		return gemini.Ping(at)
	}
	return openai.Ping(at)
}
