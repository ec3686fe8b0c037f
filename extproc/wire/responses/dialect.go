// Package responses is the wire format of OpenAI's Responses API, on both sides: a client's requests and answers (Dialect), and a
// provider's (EncodeRequest, Decoder). It does not know where responses are stored: a request that depends on stored responses lists that
// in chat.Request.Needs.
//
// Signed thinking is carried in the encrypted_content of reasoning items, so that clients send it back unchanged; see wire.Seal. What is
// lost is named as package wire describes.
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

// Error returns the body of a JSON error, which is the same in all of OpenAI's formats.
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

// appendOptional appends a string, or null if it is empty.
func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendString(dst, s)
}
