package anthropic

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/internal/fault"
)

// Error is the body of a JSON error as Anthropic's SDKs read it, with the gateway's code next to the type. A code that is not the gateway's
// own is in details, too, where these clients look for it.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	return message.AppendError(nil, f, requestID)
}

// invalid is the fault for a field, which is named as Anthropic names fields: messages.0.content.1.text.
func invalid(field, problem string) error {
	return wire.Invalid(field, "%s %s", field, problem)
}
