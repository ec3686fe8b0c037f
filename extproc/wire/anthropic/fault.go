package anthropic

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/internal/fault"
)

// Error returns the body of a JSON error as Anthropic's SDKs expect it, with the gateway's code next to the type. A code that is not the
// gateway's own is also in details, where these clients look for it.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	return message.AppendError(nil, f, requestID)
}

// invalid returns the fault for a field, whose path has Anthropic's syntax: messages.0.content.1.text.
func invalid(field, problem string) error {
	return wire.Invalid(field, "%s %s", field, problem)
}
