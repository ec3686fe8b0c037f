// Package upstream is the provider's side of an attempt: why it failed, what the failure means for the client and for the provider's health, and what
// is tried next.
package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// Failure is why one attempt failed.
type Failure struct {
	Provider   policy.ProviderID
	Kind       Kind
	Status     int           // the provider's, or the one that its error event implies; 0 without one
	RetryAfter time.Duration // from a 429
	Err        *chat.ProviderError
	Cause      error // for logs
	Unknown    bool  // with failConnect: Envoy does not know the provider's cluster yet, so no call was made
}

// Kind is how an attempt failed.
type Kind uint8

// The kinds.
const (
	ByStatus     Kind = iota // reported by the provider: status or error event
	NoConnection             // no connection
	Reset                    // the connection broke, or the answer was truncated
	TimedOut                 // no data within the timeout
	WrongForm                // the answer does not have the requested format
	NotEncoded               // the provider's format cannot express the request; cause is a fault
	Unsealed                 // an enclave's answer cannot be decrypted; cause is an e2ee.Reason
	Unattested               // an enclave's answer is not attested; cause is an attestation.Reason
	Unpaid                   // the call's price was not accepted, or the result of its payment is unknown; cause says which
	NoAnswer                 // an attempt that Envoy made by itself, and not the last: no answer, and Envoy does not say why
	Retained                 // the answer does not confirm zero retention for a private request; cause says what is missing, in the gateway's words
)

// String returns the reason as logged, counted and shown in a request's record.
func (f *Failure) String() string {
	switch f.Kind {
	case NoConnection:
		return "connect"
	case Reset:
		return "reset"
	case TimedOut:
		return "timeout"
	case WrongForm:
		return "schema"
	case NotEncoded:
		return "encode"
	case NoAnswer:
		return "no_answer"
	case Unpaid:
		return "payment"
	case Retained:
		return "retention"
	case Unattested:
		return "attestation"
	case Unsealed:
		return "e2ee"
	case ByStatus:
		if f.unusable() {
			return "invalid_answer"
		}
		return fmt.Sprintf("status_%d", f.Status)
	}
	return "unknown"
}

// Retriable reports whether another provider may succeed. A caller's invalid request fails everywhere.
func (f *Failure) Retriable() bool {
	if f.Kind != ByStatus {
		return true
	}
	return policy.Retriable(f.Status) || f.unexpectedStatus()
}

// unexpectedStatus reports whether the provider answered with a status that is neither an answer nor an error, such as a redirect. It is the
// provider's failure and not shown to clients (D-88).
func (f *Failure) unexpectedStatus() bool {
	return f.Kind == ByStatus && f.Status >= 100 && f.Status < 400
}

// unusable reports whether the provider reported no error, but sent something that is no answer, such as an empty body or HTML with status 200.
func (f *Failure) unusable() bool { return f.Kind == ByStatus && f.Err != nil && f.Err.Unusable }

// Lasting reports whether an immediate retry at the same provider would fail in the same way.
func (f *Failure) Lasting() bool {
	if f.Kind != ByStatus {
		return f.discarded() || f.Kind == Unpaid || errors.Is(f.Cause, ErrTooLong)
	}
	return policy.Lasting(f.Status)
}

// discarded reports whether there was an answer that could not be used because the provider broke a guarantee about it.
func (f *Failure) discarded() bool {
	return f.Kind == Retained || f.Kind == Unattested || f.Kind == Unsealed
}

// Result returns the effect of the failure on the provider's health.
func (f *Failure) Result() policy.Result {
	r := policy.Result{Provider: f.Provider, Outcome: policy.Failed}
	switch {
	case f.Kind == NotEncoded || f.Kind == WrongForm:
		r.Outcome = policy.Ignored
	case f.Kind == NoConnection && !f.Unknown:
		r.Outcome, r.Reason = policy.Unreachable, ConnectionReason(f.Cause)
	case f.Kind != ByStatus:
	case f.CredentialRefused():
		r.Outcome, r.Reason = policy.Refused, f.refusal()
	case f.Status == 429:
		r.Outcome, r.RetryAfter = policy.RateLimited, f.RetryAfter
	case f.Status == 402: // an account without credit fails every request
	case f.Status < 500 && f.Status != 408 && !f.unexpectedStatus():
		r.Outcome = policy.Ignored // unrelated to the provider's health
	}
	return r
}

// connectErrors maps Envoy's texts for failed connections to plain ones.
var connectErrors = []struct{ envoy, plain string }{
	{policy.RefusedOrNoAddress, "connection refused, or its name has no address"},
	{"Connection_refused", "connection refused"},
	{"WRONG_VERSION_NUMBER", "what listens there does not speak TLS"},
	{"CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted"},
	{"TLS_error", "the TLS handshake failed"},
	{"Network_is_unreachable", "the network is unreachable"},
	{"No_route_to_host", "no route to the host"},
	{"no_healthy_upstream", "its name has no address"},
	{"connection_timeout", "no answer in time"},
}

// noAddressSuffix is the end of Envoy's text for a connection to a name without an address.
var noAddressSuffix = fmt.Sprintf(" %s:%d", policy.NoAddressHost, policy.NoAddressPort)

// ConnectionReason returns why there was no connection, from Envoy's text.
func ConnectionReason(cause error) string {
	if cause == nil {
		return ""
	}
	if strings.HasSuffix(cause.Error(), noAddressSuffix) {
		return "no connection: its name has no address"
	}
	for _, w := range connectErrors {
		if strings.Contains(cause.Error(), w.envoy) {
			return "no connection: " + w.plain
		}
	}
	return "no connection"
}

// CredentialRefused reports whether the provider refused the call's credential. A 403 about the content of the prompt, as from a moderated model of
// OpenRouter, is not about the credential: otherwise any caller could lower a provider's health.
func (f *Failure) CredentialRefused() bool {
	switch {
	case f.Kind != ByStatus:
		return false
	case f.Status == http.StatusUnauthorized:
		return true
	case f.Status != http.StatusForbidden:
		return false
	case f.Err == nil:
		return true
	}
	message := strings.ToLower(f.Err.Message)
	return !strings.Contains(message, "moderation") && !strings.Contains(message, "flagged")
}

// refusal describes how the provider refused a request's credential, by its documented code: its message may quote the request.
func (f *Failure) refusal() string {
	if f.Err != nil {
		if code := cmp.Or(fault.DocumentedCode(f.Err.Code), fault.DocumentedCode(f.Err.Type)); code != "" {
			return fmt.Sprintf("%d: %s", f.Status, code)
		}
	}
	return fmt.Sprintf("it answered %d to the gateway's credential", f.Status)
}

// Refusal describes how the provider refused the credential of a call without content, such as a probe: "401: " and its message.
func (f *Failure) Refusal() string {
	if words := f.message(); words != "" {
		return fmt.Sprintf("%d: %s", f.Status, words)
	}
	return fmt.Sprintf("it answered %d to the gateway's credential", f.Status)
}

// Measure returns the outcome that the metrics count.
func (f *Failure) Measure() telemetry.Outcome {
	switch f.Kind {
	case NoConnection:
		return telemetry.Refused
	case Reset:
		return telemetry.Reset
	case TimedOut:
		return telemetry.TimedOut
	case NoAnswer:
		return telemetry.NoAnswer
	case NotEncoded, WrongForm:
		return telemetry.Rejected
	case Retained, Unattested, Unsealed, Unpaid:
		return telemetry.Failed
	case ByStatus:
	}
	switch {
	case f.Status == 429:
		return telemetry.RateLimited
	case f.Status < 500 && !f.unexpectedStatus():
		return telemetry.Rejected
	}
	return telemetry.Failed
}

// Stated returns the failure for an error that a provider reported.
func Stated(p policy.ProviderID, e *chat.ProviderError) *Failure {
	if e.Type == "truncated" {
		return &Failure{Provider: p, Kind: Reset, Err: e}
	}
	return &Failure{Provider: p, Kind: ByStatus, Status: e.Status, RetryAfter: time.Duration(e.RetryAfter) * time.Second, Err: e}
}

// CutFault returns the client's error when its stream is truncated: always retriable, and never the client's own.
func (f *Failure) CutFault() *fault.Fault {
	if f.Kind == TimedOut {
		return fault.New(fault.UpstreamTimeout, fmt.Sprintf("provider %s fell silent in the middle of its answer", f.Provider), f.Cause)
	}
	if errors.Is(f.Cause, ErrTooLong) {
		return tooLong(f.Cause)
	}
	switch f.Status { // reported inside the stream
	case 429:
		return fault.New(fault.RateLimited, fmt.Sprintf("provider %s reached its rate limit in the middle of its answer", f.Provider), f.Cause)
	case 503, 529:
		return fault.New(fault.Overloaded, fmt.Sprintf("provider %s became overloaded in the middle of its answer", f.Provider), f.Cause)
	}
	public := fmt.Sprintf("provider %s broke off its answer", f.Provider)
	if words := f.message(); words != "" && (!f.Retriable() || f.unusable()) { // about the request or the answer, not the operator's account
		public += ": " + words
	}
	out := fault.New(fault.Upstream, public, f.Cause)
	if f.Err != nil {
		out.Generated = f.Err.Generated
	}
	return out
}

// Local returns the failure for an answer of Envoy's own, from its response code details, with or without the address that it tried
// (state.HeaderFailure).
func Local(p policy.ProviderID, status int, details string) *Failure {
	f := &Failure{Provider: p, Kind: Reset, Cause: fmt.Errorf("envoy answered %d: %s", status, details)}
	switch {
	case strings.Contains(details, "connection_failure"), strings.Contains(details, "no_healthy_upstream"),
		strings.Contains(details, "cluster_not_found"), strings.Contains(details, "connection_timeout"):
		f.Kind, f.Unknown = NoConnection, strings.Contains(details, "cluster_not_found")
	case strings.Contains(details, "timeout"):
		f.Kind = TimedOut
	}
	return f
}

// secretLike matches credentials in a provider's message.
var secretLike = regexp.MustCompile(`(?i)(bearer\s+\S+|\b(sk|pk|key|bardo)[-_][a-z0-9_*.-]{6,})`)

// scrub redacts anything that looks like a credential from a provider's message, and limits its length.
func scrub(s string) string {
	const maxLength = 2000
	if len(s) > maxLength {
		s = strings.ToValidUTF8(s[:maxLength], "") + "…"
	}
	return secretLike.ReplaceAllString(s, "***")
}

// StatusOverloaded is Anthropic's own status. Its SDKs raise another exception for it than for 503.
const StatusOverloaded = 529

// Exhausted combines the failures of all attempts into the client's fault. All rate limited: a 429 with the smallest Retry-After; all overloaded: a
// 503; the operator's credentials refused: a 502 without the provider's message.
func Exhausted(fs []*Failure) *fault.Fault {
	if len(fs) == 0 {
		return fault.Newf(fault.NoProvider, "no provider is available for this request")
	}
	if answered := slices.DeleteFunc(slices.Clone(fs), func(f *Failure) bool { return f.Kind == NotEncoded }); len(answered) > 0 {
		fs = answered // unreachable providers are ignored if others answered
	}
	last := fs[len(fs)-1]
	if last.Kind == NotEncoded {
		return fault.From(last.Cause)
	}
	if !last.Retriable() {
		return callerFault(last)
	}
	if i := slices.IndexFunc(fs, func(f *Failure) bool { return f.discarded() }); i >= 0 {
		return unconfirmed(fs[i])
	}
	count := func(match func(*Failure) bool) bool {
		return !slices.ContainsFunc(fs, func(f *Failure) bool { return !match(f) })
	}
	switch {
	case count(func(f *Failure) bool { return f.Kind == ByStatus && f.Status == 429 }):
		out := fault.Newf(fault.RateLimited, "every provider of this model is over its rate limit")
		for _, f := range fs {
			if f.RetryAfter > 0 && (out.RetryAfter == 0 || f.RetryAfter < out.RetryAfter) {
				out.RetryAfter = f.RetryAfter
			}
		}
		out.RetryAfter = max(out.RetryAfter, time.Second)
		return out
	case count(func(f *Failure) bool {
		return f.Kind == ByStatus && (f.Status == 503 || f.Status == 529 || f.Status == 429)
	}):
		out := fault.Newf(fault.Overloaded, "every provider of this model is overloaded")
		out.RetryAfter = 5 * time.Second
		if count(func(f *Failure) bool { return f.Status == StatusOverloaded }) {
			out.Status = StatusOverloaded
		}
		return out
	case count(func(f *Failure) bool { return f.Kind == ByStatus && f.Status == 410 }):
		return modelNotFound(last)
	case last.Kind == TimedOut || last.Kind == ByStatus && (last.Status == 504 || last.Status == 408):
		return fault.New(fault.UpstreamTimeout, fmt.Sprintf("provider %s did not answer in time", last.Provider), last.Cause)
	}
	out := fault.New(fault.Upstream, last.public(), last.Cause)
	out.Final = count(func(f *Failure) bool { return f.Lasting() && !f.unexpectedStatus() })
	return out
}

// Error names in events and in the details of a fault.
const (
	RetentionError   = "VeniceRetentionError"
	AttestationError = "VeniceAttestationError"
	EncryptionError  = "VeniceEncryptionError"
)

// unconfirmed returns the caller's fault when no provider was left that keeps its request private: f's answer was discarded.
func unconfirmed(f *Failure) *fault.Fault {
	if f.Kind == Unsealed {
		out := fault.Newf(fault.NoPrivateProvider, "provider %s's enclave did not answer this request with an answer that can be decrypted (%v); no other provider answered",
			f.Provider, f.Cause)
		out.Details = `{"error":"` + EncryptionError + `"}`
		return out
	}
	if f.Kind == Unattested {
		out := fault.Newf(fault.NoPrivateProvider, "provider %s did not prove that its enclave gave this answer (%v), so it was discarded; no other provider answered",
			f.Provider, f.Cause)
		out.Details = `{"error":"` + AttestationError + `"}`
		return out
	}
	out := fault.Newf(fault.NoPrivateProvider, "provider %s did not confirm that it retains nothing of this request (%v), so its answer was discarded; no other provider answered",
		f.Provider, f.Cause)
	out.Details = `{"error":"` + RetentionError + `"}`
	return out
}

// modelNotFound returns the caller's fault when no provider of a model has it any more, with the last one's message.
func modelNotFound(last *Failure) *fault.Fault {
	out := fault.Newf(fault.ModelNotFound, "provider %s does not have this model any more", last.Provider)
	if words := last.message(); words != "" {
		out.Public += ": " + words
	}
	out.Param = "model"
	return out
}

// message returns the provider's message, fit for display; "" for none.
func (f *Failure) message() string {
	if f.Err == nil {
		return ""
	}
	return scrub(f.Err.Message)
}

// ErrTooLong is the cause of a failure by an answer that is too large.
var ErrTooLong = errors.New("the answer is larger than the gateway holds for one client")

// tooLong returns the caller's fault for an answer that is too large to be passed on.
func tooLong(cause error) *fault.Fault {
	out := fault.New(fault.Upstream, "the answer is larger than the gateway passes on", cause)
	out.Final = true
	return out
}

// public returns a message that names the provider and its status, without the provider's message, which may be about the operator's account.
func (f *Failure) public() string {
	switch {
	case f.Kind == NoConnection:
		return fmt.Sprintf("provider %s could not be reached", f.Provider)
	case f.Kind == NoAnswer:
		return fmt.Sprintf("no answer came from provider %s", f.Provider)
	case f.Kind == Unpaid:
		return fmt.Sprintf("the call of provider %s could not be paid for", f.Provider)
	case f.Kind == Reset:
		return fmt.Sprintf("provider %s broke off its answer", f.Provider)
	case f.unusable():
		return fmt.Sprintf("no usable answer from provider %s: %s", f.Provider, f.Err.Message)
	case f.unexpectedStatus():
		return fmt.Sprintf("provider %s answered with status %d, which is no answer: its address may be wrong", f.Provider, f.Status)
	case f.Status == 401 || f.Status == 402 || f.Status == 403:
		return fmt.Sprintf("provider %s refused the gateway's credential", f.Provider)
	}
	return fmt.Sprintf("provider %s failed with status %d", f.Provider, f.Status)
}

// callerFault passes on a provider's error about the caller's own request, with its status.
func callerFault(f *Failure) *fault.Fault {
	kind := CallerKind(f.Status)
	if kind == fault.NotFound && strings.Contains(strings.ToLower(f.Err.Message+f.Err.Code), "model") {
		kind = fault.ModelNotFound
	}
	msg := f.message()
	if msg == "" {
		msg = fmt.Sprintf("provider %s refused the request with status %d", f.Provider, f.Status)
	}
	return &fault.Fault{Kind: kind, Public: msg, Param: f.Err.Param, Code: codeOf(f.Err), Type: errorType(f.Err.Type), Status: f.Status, Generated: f.Err.Generated}
}

// codeOf returns a provider's own code; "" for a number, which repeats the status.
func codeOf(e *chat.ProviderError) string {
	if strings.Trim(e.Code, "0123456789") == "" {
		return ""
	}
	return e.Code
}

// errorType returns a provider's error type, if it is a single word.
func errorType(s string) string {
	const letters, maxLength = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", 64
	if len(s) > maxLength || strings.Trim(s, letters) != "" {
		return ""
	}
	return s
}

// CallerKind returns the kind for a provider's refusal of the caller's own request, by its status.
func CallerKind(status int) fault.Kind {
	switch status {
	case 404:
		return fault.NotFound
	case 413:
		return fault.TooLarge
	}
	return fault.InvalidRequest
}

// ModelMissing reports whether a provider says that it does not have the requested model, or no longer has it (B-24).
func (f *Failure) ModelMissing(to *policy.Resolution) bool {
	switch {
	case f.Kind != ByStatus:
		return false
	case f.Status == http.StatusGone, f.Status == http.StatusMovedPermanently, f.Status == http.StatusPermanentRedirect:
		return true
	case f.Status != http.StatusNotFound || f.Err == nil:
		return false
	}
	message := strings.ToLower(f.Err.Message)
	return f.Err.Code == "model_not_found" || strings.Contains(message, "model") || strings.Contains(message, "no endpoints found") ||
		to.Upstream != "" && strings.Contains(message, strings.ToLower(to.Upstream))
}

// Reason returns a short text on why the attempt ended, for the request's record. It excludes the provider's message, which may quote the prompt.
func (f *Failure) Reason() string {
	switch f.Kind {
	case NoConnection:
		return ConnectionReason(f.Cause)
	case Reset:
		if errors.Is(f.Cause, ErrTooLong) {
			return f.Cause.Error()
		}
		return "the connection broke, or the answer had no end"
	case NoAnswer:
		return "no answer came"
	case TimedOut:
		if f.Cause == nil {
			return "no answer in time"
		}
		return f.Cause.Error()
	case WrongForm:
		return "the answer does not follow its schema"
	case NotEncoded:
		return "the request cannot be written in the provider's format"
	case Unsealed:
		return fmt.Sprintf("the answer cannot be decrypted: %v", f.Cause)
	case Unattested:
		return fmt.Sprintf("the answer is not attested: %v", f.Cause)
	case Unpaid:
		return fmt.Sprintf("the call was not paid for: %v", f.Cause)
	case Retained:
		return fmt.Sprintf("the provider did not confirm that it retains nothing: %v", f.Cause)
	case ByStatus:
	}
	if f.unusable() {
		return f.Err.Message
	}
	reason := "the provider answered " + strconv.Itoa(f.Status)
	if f.Err != nil {
		if errType := fault.DocumentedCode(f.Err.Type); errType != "" {
			reason += " " + errType
		}
	}
	return reason
}
