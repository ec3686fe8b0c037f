package errbody

import "bardo.money/gateway/extproc/chat"

// statuses maps error types and codes to HTTP statuses, by the providers' documentation.
var statuses = map[string]int{
	// Anthropic.
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
	"not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
	"overloaded_error": 529,
	// OpenAI.
	"invalid_api_key": 401, "model_not_found": 404, "context_length_exceeded": 400, "rate_limit_exceeded": 429,
	"insufficient_quota": 429, "server_error": 500, "internal_server_error": 500, "engine_overloaded": 503,
	"service_unavailable": 503, "overloaded": 503, "timeout": 504, "BadRequestError": 400, "NotFoundError": 404,
	"InternalServerError": 500, "invalid_prompt": 400, "bio_policy": 400,
	// Google.
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401,
	"PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ABORTED": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499,
	"INTERNAL": 500, "UNKNOWN": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}

// implied returns the status of an error without one. The code has precedence, because it is more specific.
func implied(e *chat.ProviderError) int {
	for _, name := range [...]string{e.Code, e.Type} {
		if s, ok := statuses[name]; ok {
			return s
		}
	}
	return 500
}
