package fault

import "log/slog"

// documentedCodes are the error types and codes that providers document. Records and logs contain no other type or code of a provider's error, because
// it may quote the request.
var documentedCodes = func() map[string]bool {
	all := map[string]bool{}
	for _, w := range [...]string{
		// Anthropic, and types of OpenAI.
		"invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error", "request_too_large", "rate_limit_error", "api_error",
		"timeout_error", "overloaded_error", "server_error", "insufficient_quota", "tokens", "requests", "image_generation_user_error",
		// OpenAI and compatible providers.
		"invalid_api_key", "model_not_found", "context_length_exceeded", "rate_limit_exceeded", "internal_server_error", "engine_overloaded", "service_unavailable",
		"overloaded", "timeout", "BadRequestError", "NotFoundError", "InternalServerError", "invalid_prompt", "bio_policy", "content_filter", "content_policy_violation",
		"moderation_blocked", "string_above_max_length", "string_below_min_length", "array_above_max_length", "array_below_min_length", "integer_above_max_value",
		"integer_below_min_value", "decimal_above_max_value", "decimal_below_min_value", "invalid_value", "invalid_type", "missing_required_parameter", "unknown_parameter",
		"unsupported_parameter", "unsupported_value", "invalid_function_parameters", "invalid_json_schema", "invalid_image", "invalid_image_format", "invalid_image_url",
		"invalid_base64", "image_too_large", "image_parse_error", "unsupported_file", "unsupported_country_region_territory", "billing_hard_limit_reached",
		"account_deactivated", "insufficient_permissions", "deployment_not_found", "json_validate_failed", "tool_use_failed", "model_decommissioned",
		"previous_response_not_found", "thread_unsupported_request", "vector_store_timeout", "ResponsibleAIPolicyViolation", "DeploymentNotFound",
		// Google.
		"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "ABORTED", "RESOURCE_EXHAUSTED", "CANCELLED",
		"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED", "API_KEY_INVALID", "ALREADY_EXISTS", "UNIMPLEMENTED",
	} {
		all[w] = true
	}
	return all
}()

// DocumentedCode returns a type or code of a provider's error if providers document it; else "".
func DocumentedCode(w string) string {
	if documentedCodes[w] {
		return w
	}
	return ""
}

// Recorded returns the code for records: the client's, except that an undocumented code of a provider is replaced by the kind.
func (f *Fault) Recorded() string {
	if w := DocumentedCode(f.Code); w != "" {
		return w
	}
	return string(f.Kind)
}

// LogValue returns the fault for logs: of a client's error, or a Quiet one, only the kind, because the message may quote the request; of others
// everything.
func (f *Fault) LogValue() slog.Value {
	if f.Quiet || f.HTTPStatus() < 500 {
		return slog.StringValue(string(f.Kind))
	}
	return slog.StringValue(f.Error())
}
