// Package formats maps a dialect to its code, for adapters whose providers have several formats. It knows no provider.
package formats

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// NewCall writes one attempt in one of OpenAI's formats except Chat Completions: those whose calls depend only on the catalog and the
// endpoint. ok is false for any other dialect. The error is a fault.
func NewCall(d chat.Dialect, buf []byte, req *chat.Request, to *policy.Resolution, at provider.Endpoint) (call *provider.Call, ok bool, err error) {
	switch d { //nolint:exhaustive // the others depend on options of the adapter
	case chat.Embeddings:
		return embeddings.NewCall(buf, req, to, at), true, nil
	case chat.Completions:
		return completions.NewCall(buf, req, to, at), true, nil
	case chat.Responses:
		call, err = responses.NewCall(buf, req, at, responses.Options(*to))
		return call, true, err
	}
	return nil, false, nil
}

// NewDecoder returns a decoder of the answer to a call in dialect d.
func NewDecoder(d chat.Dialect, req *chat.Request, status int, h header.List) provider.Decoder {
	switch d {
	case chat.Anthropic:
		return message.NewDecoder(req, status, h)
	case chat.Gemini:
		return gemini.NewDecoder(req, status, h)
	case chat.Responses:
		return responses.NewDecoder(req, status, h)
	case chat.Completions:
		return completions.NewDecoder(req, status, h)
	case chat.Embeddings:
		return embeddings.NewDecoder(req, status, h)
	case chat.OpenAI:
	}
	return chatcompletion.NewDecoder(req, status, h)
}
