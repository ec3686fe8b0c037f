// Package openai is the wire format of OpenAI Chat Completions, on both sides: the requests of clients (Dialect) and to providers
// (EncodeRequest). Answers are package chatcompletion's. It knows nothing of HTTP except the headers of an error, nothing of keys, and no
// particular provider. What requests lose is named as package wire describes.
//
// In addition to OpenAI's own members it supports extensions of compatible servers and clients: reasoning, reasoning_details,
// reasoning_content, thinking, top_k, cache_control, and is_error on tool results.
package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/fault"
)

// Dialect is the client's side of the format. The zero value is ready.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Name is chat.OpenAI.
func (Dialect) Name() chat.Dialect { return chat.OpenAI }

// Error returns the body of a JSON error as OpenAI's SDKs expect it, with the request's id.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	return chatcompletion.AppendError(nil, f, requestID)
}

// NewEncoder returns the encoder of one answer.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder { return chatcompletion.NewEncoder(o) }
