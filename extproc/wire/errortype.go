package wire

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
)

// errorTypes maps HTTP statuses to each dialect's error types.
var errorTypes = map[int]struct{ openAI, anthropic string }{
	400: {"invalid_request_error", "invalid_request_error"},
	401: {"authentication_error", "authentication_error"},
	402: {"insufficient_quota", "billing_error"},
	403: {"permission_error", "permission_error"},
	404: {"not_found_error", "not_found_error"},
	408: {"timeout_error", "timeout_error"},
	409: {"conflict_error", "invalid_request_error"},
	413: {"invalid_request_error", "request_too_large"},
	429: {"rate_limit_error", "rate_limit_error"},
	500: {"api_error", "api_error"},
	503: {"overloaded_error", "overloaded_error"},
	504: {"timeout_error", "timeout_error"},
	529: {"overloaded_error", "overloaded_error"}, // Anthropic's own status
}

// ErrorType returns a dialect's type of an error with this HTTP status. An unlisted status has the type of 400 if it is below 500, else of
// 500.
func ErrorType(d chat.Dialect, status int) string {
	names, ok := errorTypes[status]
	switch {
	case ok:
	case status >= 400 && status < 500:
		names = errorTypes[400]
	default:
		names = errorTypes[500]
	}
	if d == chat.Anthropic {
		return names.anthropic
	}
	return names.openAI
}

// TypeOf returns a dialect's type of a fault: the provider's own type for a client error, if the provider stated one in this dialect.
func TypeOf(d chat.Dialect, f *fault.Fault) string {
	if f.Type != "" {
		return f.Type
	}
	return ErrorType(d, f.HTTPStatus())
}

// AppendDetails appends a fault's details as a member with a comma before it; nothing if there are none.
func AppendDetails(dst []byte, f *fault.Fault) []byte {
	if f.Details == "" {
		return dst
	}
	return append(append(dst, `,"details":`...), f.Details...)
}
