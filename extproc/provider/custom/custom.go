// Package custom calls a server of the operator's choice in the format it is configured with: OpenAI's, as vLLM and most
// others speak it, Anthropic's, or Gemini's. It knows nothing of where keys come from, and needs none.
package custom

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "custom".
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is "custom".
func (Adapter) Name() string { return "custom" }

// Dialect is the one the endpoint is configured with, OpenAI's if it says none. Clients of Responses, and models that are served in it alone,
// are served in that, where it is spoken, clients of embeddings by a server of OpenAI's format, and those of a prompt by one
// that is not known to lack the endpoint.
func (Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	switch {
	case at.Dialect == chat.Anthropic, at.Dialect == chat.Gemini:
		return at.Dialect
	case d == chat.Embeddings && embeddings.At(&to):
		return chat.Embeddings
	case at.Responses && responses.Serves(&to, d):
		return chat.Responses
	case d == chat.Completions && !at.NoCompletions && !to.Without.Completions:
		return chat.Completions
	}
	return chat.OpenAI
}

// Encode writes a call in the endpoint's format, with the length limit under the name that the client gave it unless the
// model is known to refuse that.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are OpenAI's
	case chat.Anthropic:
		return anthropic.NewCall(buf, req, to, at, anthropic.StripNothing) // what it makes of thinking, only the server knows
	case chat.Gemini:
		return gemini.NewCall(buf, req, to, at)
	case chat.Embeddings:
		return embeddings.NewCall(buf, req, &to, at), nil
	case chat.Completions:
		return completions.NewCall(buf, req, &to, at), nil
	case chat.Responses:
		return responses.NewCall(buf, req, at, responses.Options(to))
	}
	o := openai.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), FixedSampling: to.FixedSampling, CacheControl: at.CacheControl, MinCache: to.MinCache,
		NoDetails: to.Without.Thinking, Video: slices.Contains(to.Features, policy.Video),
	}
	if to.Without.Thinking {
		o.ReasoningContent = openai.NoReasoningContent
	}
	o.Efforts = to.Efforts
	o.Control(to.Control, openai.ReasoningEffort)
	if o.Reasoning == openai.TemplateThinking || o.Reasoning == openai.SlashThinking { // an open model behind vLLM or its like
		o.TopK, o.MinP = true, true
	}
	if to.FixedSampling { // such models refuse max_tokens as well
		o.TokensField = openai.MaxCompletionTokens
	}
	return openai.NewCall(buf, req, at, o)
}

// Amend leaves out thinking, signatures and beta features that a server refused.
func (a Adapter) Amend(req *chat.Request, to policy.Resolution, at provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are no provider's
	case chat.Responses:
		if req.Dialect != chat.Responses { // which says what it wants to
			return responses.Amend(to, refusal)
		}
	case chat.Anthropic:
		return anthropic.Amend(req, to, refusal)
	case chat.Gemini:
		return gemini.Amend(to, refusal)
	case chat.OpenAI:
		return openai.Amend(to, refusal)
	}
	return to, false
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are OpenAI's
	case chat.Anthropic:
		return anthropic.NewDecoder(req, status, h)
	case chat.Gemini:
		return gemini.NewDecoder(req, status, h)
	case chat.Embeddings:
		return embeddings.NewDecoder(req, status, h)
	case chat.Completions:
		return completions.NewDecoder(req, status, h)
	case chat.Responses:
		return responses.NewDecoder(req, status, h)
	}
	return openai.NewDecoder(req, status, h)
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
