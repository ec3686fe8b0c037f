// Package fault is the only error that a client may see: a kind with its HTTP status, a public message, and a private cause. It does not know any
// dialect; the wire packages write it in the client's format.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Kind is an error code of the contract. Its string is the client's error.code.
type Kind string

// The codes, in the order of their statuses.
const (
	InvalidRequest     Kind = "invalid_request"
	PromptInjection    Kind = "prompt_injection"
	SecretInPrompt     Kind = "secret_in_prompt"
	UnpricedParameter  Kind = "unpriced_parameter"
	GuardrailRefused   Kind = "guardrail_refused"
	UnsupportedMedia   Kind = "unsupported_media_type"
	InvalidAPIKey      Kind = "invalid_api_key"
	PaymentRequired    Kind = "payment_required"
	InsufficientFunds  Kind = "insufficient_balance"
	KeyRestricted      Kind = "key_restricted"
	ToolRefused        Kind = "tool_refused"
	ModelNotFound      Kind = "model_not_found"
	NotFound           Kind = "not_found"
	MethodNotAllowed   Kind = "method_not_allowed"
	Conflict           Kind = "conflict"
	PaymentReplayed    Kind = "payment_replayed"
	Gone               Kind = "gone"
	RequestTimeout     Kind = "request_timeout"
	TooLarge           Kind = "request_too_large"
	RequiresDirectKey  Kind = "requires_direct_key"
	T0HasNoModel       Kind = "t0_has_no_model"
	RateLimited        Kind = "rate_limit_exceeded"
	AllowanceExhausted Kind = "token_allowance_exhausted"
	BudgetExceeded     Kind = "budget_exceeded"
	Internal           Kind = "internal"
	Upstream           Kind = "upstream_error"
	SchemaInvalid      Kind = "schema_validation_failed"
	StructuredOutput   Kind = "structured_output_error"
	NoProvider         Kind = "no_provider"
	NoPrivateProvider  Kind = "no_private_provider"
	Overloaded         Kind = "overloaded"
	GuardrailDown      Kind = "guardrail_unavailable"
	Unavailable        Kind = "gateway_unavailable"
	UpstreamTimeout    Kind = "upstream_timeout"
)

// trait is a kind's status and whether a retry may help.
type trait struct {
	status int
	retry  retry
}

// retry is whether repeating the same request within seconds, as SDKs do automatically, may succeed.
type retry bool

const (
	helps  retry = true
	futile retry = false // it would fail again or be charged twice
)

var traits = map[Kind]trait{
	InvalidRequest:     {400, futile},
	RequiresDirectKey:  {400, futile},
	PromptInjection:    {400, futile},
	SecretInPrompt:     {400, futile},
	UnpricedParameter:  {400, futile},
	GuardrailRefused:   {400, futile},
	InvalidAPIKey:      {401, futile},
	PaymentRequired:    {402, futile},
	InsufficientFunds:  {402, futile},
	KeyRestricted:      {403, futile},
	ToolRefused:        {403, futile},
	ModelNotFound:      {404, futile},
	NotFound:           {404, futile},
	MethodNotAllowed:   {405, futile},
	Conflict:           {409, futile},
	PaymentReplayed:    {409, futile},
	Gone:               {410, futile},
	RequestTimeout:     {408, helps}, // the connection may be better, and nothing was charged
	TooLarge:           {413, futile},
	UnsupportedMedia:   {415, futile},
	T0HasNoModel:       {422, futile},
	RateLimited:        {429, helps},
	AllowanceExhausted: {429, futile}, // until the next hour
	BudgetExceeded:     {429, futile}, // until the next UTC day
	Internal:           {500, helps},  // the failure may be temporary, and nothing was charged
	Upstream:           {502, helps},
	SchemaInvalid:      {502, futile}, // it was already retried, and each answer is charged
	StructuredOutput:   {502, futile},
	GuardrailDown:      {503, helps},
	NoProvider:         {503, futile}, // until the operator configures or enables one
	NoPrivateProvider:  {503, futile},
	Overloaded:         {503, helps},
	Unavailable:        {503, helps},
	UpstreamTimeout:    {504, helps},
}

// ByRules reports whether the kind means that the operator's own rules or services refused a request or an answer.
func (k Kind) ByRules() bool { return k == ToolRefused || k == GuardrailRefused || k == GuardrailDown }

// Kinds returns all codes, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(traits)) }

// Fault is an error with a public part. Public and Param are sent to the client; the wrapped cause never is.
type Fault struct {
	Kind       Kind
	Public     string
	Param      string        // the invalid field, if known
	Code       string        // the provider's code of a client error, which clients depend on; "" means the kind
	Type       string        // the provider's type of a client error, in the client's format; "" means that of the status
	Status     int           // the provider's status of a client error; 0 means the kind's
	RetryAfter time.Duration // when to ask again, where that is known; see Wait
	Final      bool          // a retry will not help, although it usually does for the kind
	Details    string        // JSON object with further data for the client; "" for none. It may have content of requests, so it is never logged
	Generated  string        // what the model had written when its provider refused it, for clients of OpenAI's format; "" for none. It is content, so it is never logged
	Quiet      bool          // Public may quote content, or names that a model chose: logs have only the kind
	Plain      bool          // Public contains only the gateway's own words and names, nothing of the request: the request's record has it
	cause      error
}

// New returns a fault of a kind with its public message and private cause (may be nil).
func New(k Kind, public string, cause error) *Fault {
	return &Fault{Kind: k, Public: public, cause: cause}
}

// Newf returns a fault without a cause.
func Newf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Public: fmt.Sprintf(format, args...)}
}

// CodeString returns the client's error.code.
func (f *Fault) CodeString() string {
	if f.Code != "" {
		return f.Code
	}
	return string(f.Kind)
}

// Error returns the text for logs: the code, the message and the cause.
func (f *Fault) Error() string {
	if f.Quiet {
		return string(f.Kind)
	}
	if f.cause != nil {
		return fmt.Sprintf("%s: %s: %v", f.Kind, f.Public, f.cause)
	}
	return string(f.Kind) + ": " + f.Public
}

// Unwrap returns the private cause.
func (f *Fault) Unwrap() error { return f.cause }

// HTTPStatus returns the status, which the client's SDK maps to its exception class.
func (f *Fault) HTTPStatus() int {
	if f.Status != 0 {
		return f.Status
	}
	if t, ok := traits[f.Kind]; ok {
		return t.status
	}
	return 500
}

// soon is the wait where the fault ends within moments, and no other time is known.
const soon = 2 * time.Second

// Wait is the time that the client is told to wait before it retries; 0 for no such header.
func (f *Fault) Wait() time.Duration {
	if f.RetryAfter == 0 && (f.Kind == Unavailable || f.Kind == Overloaded) {
		return soon
	}
	return f.RetryAfter
}

// ShouldRetry reports whether the same request may succeed within seconds. SDKs retry some statuses automatically, so a futile one must say so.
func (f *Fault) ShouldRetry() bool { return !f.Final && bool(traits[f.Kind].retry) }

// From returns the fault in err's chain, or an Internal one that hides err.
func From(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return New(Internal, "the gateway failed to handle this request", err)
}

// Clip shortens a client's text for use in an error message.
func Clip(s string) string {
	const maxLen = 100
	if len(s) > maxLen {
		return s[:maxLen] + "…"
	}
	return s
}
