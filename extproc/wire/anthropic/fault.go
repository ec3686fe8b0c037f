package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// Error is the body of a JSON error as Anthropic's SDKs read it, with the gateway's code beside the type. A code that is not the
// gateway's own is also where these clients look for one.
func (Dialect) Error(f *fault.Fault, requestID string) []byte { return appendError(nil, f, requestID) }

func appendError(dst []byte, f *fault.Fault, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, wire.TypeOf(chat.Anthropic, f)...)
	dst = append(dst, `","message":`...)
	dst = jsonx.AppendString(dst, f.Public)
	dst = append(dst, `,"code":`...)
	dst = jsonx.AppendString(dst, f.CodeString())
	if f.Code != "" {
		dst = append(dst, `,"details":{"error_code":`...)
		dst = jsonx.AppendString(dst, f.Code)
		dst = append(dst, '}')
	} else {
		dst = wire.AppendDetails(dst, f)
	}
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonx.AppendString(dst, requestID)
	}
	return append(dst, '}')
}

// invalid refuses a field, which is named as Anthropic names fields: messages.0.content.1.text.
func invalid(field, problem string) error {
	return wire.Invalid(field, "%s %s", field, problem)
}
