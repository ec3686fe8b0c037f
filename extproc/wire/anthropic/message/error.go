package message

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// AppendError appends the JSON body of an error as Anthropic's SDKs expect it. requestID is the gateway's; "" omits it.
func AppendError(dst []byte, f *fault.Fault, requestID string) []byte {
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
