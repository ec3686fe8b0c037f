// Package responses is the wire format of OpenAI's Responses API, on both sides: a client's requests and the answers it
// reads (Dialect), and the requests and answers of a provider that speaks it (EncodeRequest, Decoder), which it does with
// clients of this format alone. It knows nothing of where responses are kept: what needs that is said in chat.Request.Needs.
//
// Thinking that its provider signed travels in the encrypted_content of reasoning items, so that it comes back whole; see seal.
// What is lost on the way to the format or from it is named as package wire says.
package responses

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// Dialect is the client's side of the format. The zero value is ready.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Name is chat.Responses.
func (Dialect) Name() chat.Dialect { return chat.Responses }

// Error is the body of a JSON error, which is the same in all of OpenAI's formats.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	dst := append([]byte(nil), `{"error":`...)
	dst = appendFault(dst, f)
	if requestID != "" {
		dst = jsonx.AppendString(append(dst, `,"request_id":`...), requestID)
	}
	return append(dst, '}')
}

// appendFault appends the object that describes an error.
func appendFault(dst []byte, f *fault.Fault) []byte {
	dst = jsonx.AppendString(append(dst, `{"message":`...), f.Public)
	dst = append(append(dst, `,"type":"`...), wire.TypeOf(chat.Responses, f)...)
	dst = appendOptional(append(dst, `","param":`...), f.Param)
	dst = jsonx.AppendString(append(dst, `,"code":`...), f.CodeString())
	return append(wire.AppendDetails(dst, f), '}')
}

// appendOptional appends a string, or null for none.
func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendString(dst, s)
}
