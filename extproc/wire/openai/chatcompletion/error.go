package chatcompletion

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// AppendError appends the JSON body of an error as OpenAI's SDKs expect it. requestID is the gateway's; "" omits it.
func AppendError(dst []byte, f *fault.Fault, requestID string) []byte {
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
	dst = wire.AppendDetails(dst, f)
	if f.Generated != "" {
		dst = jsonx.AppendString(append(dst, `,"failed_generation":`...), f.Generated)
	}
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonx.AppendString(dst, requestID)
	}
	return append(dst, '}')
}
