// Package openai is the wire format of OpenAI Chat Completions, on both sides: a client's requests and the answers it
// reads (Dialect), and a provider's requests and the answers it gives (EncodeRequest, Decoder). It knows nothing of
// HTTP beyond the headers of an error, of keys, or of which provider it talks to.
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
	dst = append(dst, errorType(f.Kind)...)
	dst = append(dst, `","param":`...)
	if f.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonx.AppendString(dst, f.Param)
	}
	dst = append(dst, `,"code":`...)
	dst = jsonx.AppendString(dst, string(f.Kind))
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonx.AppendString(dst, requestID)
	}
	return append(dst, '}')
}

// errorType is what OpenAI calls a kind of fault.
func errorType(k fault.Kind) string {
	switch k {
	case fault.InvalidRequest, fault.UnsupportedMedia, fault.MethodNotAllowed, fault.TooLarge, fault.RequiresDirectKey:
		return "invalid_request_error"
	case fault.InvalidAPIKey:
		return "authentication_error"
	case fault.PaymentRequired, fault.InsufficientFunds:
		return "insufficient_quota"
	case fault.KeyRestricted:
		return "permission_error"
	case fault.ModelNotFound, fault.NotFound:
		return "not_found_error"
	case fault.RateLimited, fault.AllowanceExhausted, fault.BudgetExceeded:
		return "rate_limit_error"
	case fault.NoProvider, fault.NoPrivateProvider, fault.Overloaded, fault.Unavailable:
		return "overloaded_error"
	case fault.UpstreamTimeout:
		return "timeout_error"
	case fault.Internal, fault.Upstream:
		return "api_error"
	}
	return "api_error"
}
