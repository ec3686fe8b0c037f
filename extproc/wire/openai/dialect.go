// Package openai is the wire format of OpenAI Chat Completions, on both sides: a client's requests and the answers it
// reads (Dialect), and a provider's requests and the answers it gives (EncodeRequest, Decoder). It knows nothing of
// HTTP beyond the headers of an error, of keys, or of which provider it talks to. What is lost on the way to it or from
// it is named as package wire says.
//
// Besides OpenAI's own members it reads what its users' servers and clients have added: reasoning, reasoning_details,
// reasoning_content, thinking, top_k, cache_control, and is_error on the results of tools.
package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// Dialect is the client's side of the format.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Name is chat.OpenAI.
func (Dialect) Name() chat.Dialect { return chat.OpenAI }

// Error is the body of a JSON error as OpenAI's SDKs read it, with the request's id beside it.
func (Dialect) Error(f *fault.Fault, requestID string) []byte { return appendError(nil, f, requestID) }

func appendError(dst []byte, f *fault.Fault, requestID string) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = jsonx.AppendString(dst, f.Public)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, wire.TypeOf(chat.OpenAI, f)...)
	dst = append(dst, `","param":`...)
	if f.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonx.AppendString(dst, f.Param)
	}
	dst = append(dst, `,"code":`...)
	dst = jsonx.AppendString(dst, f.CodeString())
	dst = append(wire.AppendDetails(dst, f), '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonx.AppendString(dst, requestID)
	}
	return append(dst, '}')
}
