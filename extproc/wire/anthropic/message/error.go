package message

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// tooLong begins Anthropic's message about a prompt that does not fit in the context window. It has no code: Claude Code compacts a
// conversation by the message.
const tooLong = "prompt is too long"

// sentence returns a fault's message for a client of this format.
func sentence(f *fault.Fault) string {
	said := strings.ToLower(f.Public)
	if f.Code != errbody.Overflow || strings.Contains(said, tooLong) || strings.Contains(said, "exceed context limit") {
		return f.Public
	}
	return tooLong + ": " + f.Public
}

// AppendError appends the JSON body of an error as Anthropic's SDKs expect it. requestID is the gateway's; "" omits it.
func AppendError(dst []byte, f *fault.Fault, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, wire.TypeOf(chat.Anthropic, f)...)
	dst = append(dst, `","message":`...)
	dst = jsonx.AppendString(dst, sentence(f))
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
