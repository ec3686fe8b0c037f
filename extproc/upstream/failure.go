// Package upstream is the provider's side of an attempt: why one failed, what that means to the client and for the provider's health, and
// what is tried next.
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

// Failure is why one attempt did not answer.
type Failure struct {
	Provider   policy.ProviderID
	Kind       Kind
	Status     int           // the provider's, or what its error event implies; 0 without one
	RetryAfter time.Duration // what a 429 asked for
	Err        *chat.ProviderError
	Cause      error // for logs
	Unknown    bool  // with failConnect: Envoy does not know the provider's cluster yet, so nobody was asked
}

// Kind is in which way an attempt failed.
type Kind uint8

// The kinds.
const (
	ByStatus     Kind = iota // the provider said so: status or error event
	NoConnection             // no connection
	Reset                    // the connection broke, or the answer ended in the middle
	TimedOut                 // silence beyond the bound
	WrongForm                // the answer does not have the form that was asked for
	NotEncoded               // the request cannot be said in this provider's format; cause is a fault
	Unsealed                 // the answer of an enclave cannot be decrypted; cause is an e2ee.Reason
	Unattested               // the answer of an enclave is not proved to be its own; cause is an attestation.Reason
	Unpaid                   // the call's price was not accepted, or what became of its payment is not known; cause says which
	NoAnswer                 // an attempt that Envoy made by itself, and not the last: no answer came, and Envoy does not say why
	Retained                 // the answer does not confirm that nothing of a private request is retained; cause says what is missing, in our words
)

// String is the reason as it is logged, counted and shown in a request's record.
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
		return fmt.Sprintf("status_%d", f.Status)
	}
	return "unknown"
}

// Retriable reports whether another provider may do better. A request that its own caller got wrong fails everywhere.
func (f *Failure) Retriable() bool {
	if f.Kind != ByStatus {
		return true
	}
	return policy.Retriable(f.Status) || f.misplaced()
}

// misplaced reports whether the provider answered with a status that is neither an answer nor an error, as a redirect: its failure, which
// no client is shown (D-88).
func (f *Failure) misplaced() bool { return f.Kind == ByStatus && f.Status >= 100 && f.Status < 400 }

// Lasting reports whether the provider would answer the same request in the same way a moment later.
func (f *Failure) Lasting() bool {
	if f.Kind != ByStatus {
		return f.discarded() || f.Kind == Unpaid || errors.Is(f.Cause, ErrTooLong)
	}
	return policy.Lasting(f.Status)
}

// discarded reports whether the answer came, and was not used because its provider did not keep its word about it.
func (f *Failure) discarded() bool {
	return f.Kind == Retained || f.Kind == Unattested || f.Kind == Unsealed
}

// Result is what the failure says about the provider's health.
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
	case f.Status == 402: // an empty account fails every request alike
	case f.Status < 500 && f.Status != 408 && !f.misplaced():
		r.Outcome = policy.Ignored // says nothing about whether the provider is up
	}
	return r
}

// unmetWords are what Envoy says of a connection that was not made, and what that means.
var unmetWords = []struct{ envoy, plain string }{
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

// triedNothing is the end of what Envoy says of a connection in place of a name that has no address.
var triedNothing = fmt.Sprintf(" %s:%d", policy.NoAddressHost, policy.NoAddressPort)

// ConnectionReason says why there was no connection, from what Envoy says of it.
func ConnectionReason(cause error) string {
	if cause == nil {
		return ""
	}
	if strings.HasSuffix(cause.Error(), triedNothing) {
		return "no connection: its name has no address"
	}
	for _, w := range unmetWords {
		if strings.Contains(cause.Error(), w.envoy) {
			return "no connection: " + w.plain
		}
	}
	return "no connection"
}

// CredentialRefused reports whether the provider does not take the credential that it was called with. A 403 that concerns what the prompt
// says, as of a moderated model of OpenRouter, is not about the credential: otherwise any caller could put a provider out of favour.
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
	said := strings.ToLower(f.Err.Message)
	return !strings.Contains(said, "moderation") && !strings.Contains(said, "flagged")
}

// refusal says how the provider refused a credential of a request, with the code that it documents: its sentence may quote the request.
func (f *Failure) refusal() string {
	if f.Err != nil {
		if word := cmp.Or(fault.ProvidersWord(f.Err.Code), fault.ProvidersWord(f.Err.Type)); word != "" {
			return fmt.Sprintf("%d: %s", f.Status, word)
		}
	}
	return fmt.Sprintf("it answered %d to the gateway's credential", f.Status)
}

// Refusal says how the provider refused the credential of a call without content, as a probe: "401: " and its words.
func (f *Failure) Refusal() string {
	if words := f.words(); words != "" {
		return fmt.Sprintf("%d: %s", f.Status, words)
	}
	return fmt.Sprintf("it answered %d to the gateway's credential", f.Status)
}

// Measure is the failure as the metrics count it.
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
	case f.Status < 500 && !f.misplaced():
		return telemetry.Rejected
	}
	return telemetry.Failed
}

// Stated reads a provider's stated error.
func Stated(p policy.ProviderID, e *chat.ProviderError) *Failure {
	if e.Type == "truncated" {
		return &Failure{Provider: p, Kind: Reset, Err: e}
	}
	return &Failure{Provider: p, Kind: ByStatus, Status: e.Status, RetryAfter: time.Duration(e.RetryAfter) * time.Second, Err: e}
}

// CutFault is what the client sees when its stream ends in the middle: an error worth a retry, never one of its own making.
func (f *Failure) CutFault() *fault.Fault {
	if f.Kind == TimedOut {
		return fault.New(fault.UpstreamTimeout, fmt.Sprintf("provider %s fell silent in the middle of its answer", f.Provider), f.Cause)
	}
	if errors.Is(f.Cause, ErrTooLong) {
		return tooLong(f.Cause)
	}
	switch f.Status { // stated inside the stream
	case 429:
		return fault.New(fault.RateLimited, fmt.Sprintf("provider %s reached its rate limit in the middle of its answer", f.Provider), f.Cause)
	case 503, 529:
		return fault.New(fault.Overloaded, fmt.Sprintf("provider %s became overloaded in the middle of its answer", f.Provider), f.Cause)
	}
	return fault.New(fault.Upstream, fmt.Sprintf("provider %s broke off its answer", f.Provider), f.Cause)
}

// Local reads why Envoy answered in a provider's place, from its response code details, with or without the address that it tried (state.HeaderFailure).
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

// secretLike finds what looks like a credential in a provider's words.
var secretLike = regexp.MustCompile(`(?i)(bearer\s+\S+|\b(sk|pk|key|bardo)[-_][a-z0-9_*.-]{6,})`)

// scrub makes a provider's sentence fit to pass on: without anything that looks like a credential, and not long.
func scrub(s string) string {
	const most = 2000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return secretLike.ReplaceAllString(s, "***")
}

// StatusOverloaded is Anthropic's own status. Its SDKs raise another class for it than for a 503.
const StatusOverloaded = 529

// Exhausted folds the failures of all attempts into the one fault that the client sees. All over their limits is a 429 with the
// smallest Retry-After; all overloaded is a 503; bad credentials of the operator's own are a 502 without the provider's words.
func Exhausted(fs []*Failure) *fault.Fault {
	if len(fs) == 0 {
		return fault.Newf(fault.NoProvider, "no provider is available for this request")
	}
	if said := slices.DeleteFunc(slices.Clone(fs), func(f *Failure) bool { return f.Kind == NotEncoded }); len(said) > 0 {
		fs = said // who could not be asked says nothing about those who were
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
		return modelGone(last)
	case last.Kind == TimedOut || last.Kind == ByStatus && (last.Status == 504 || last.Status == 408):
		return fault.New(fault.UpstreamTimeout, fmt.Sprintf("provider %s did not answer in time", last.Provider), last.Cause)
	}
	out := fault.New(fault.Upstream, last.public(), last.Cause)
	out.Final = count(func(f *Failure) bool { return f.Lasting() && !f.misplaced() })
	return out
}

// The names of errors in events and in the details of a fault.
const (
	RetentionError   = "VeniceRetentionError"
	AttestationError = "VeniceAttestationError"
	EncryptionError  = "VeniceEncryptionError"
)

// unconfirmed tells the caller that no provider was left that keeps its request private: f's answer was discarded.
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

// modelGone tells the caller that the providers of a model have it no more, in the last one's words.
func modelGone(last *Failure) *fault.Fault {
	out := fault.Newf(fault.ModelNotFound, "provider %s does not have this model any more", last.Provider)
	if words := last.words(); words != "" {
		out.Public += ": " + words
	}
	out.Param = "model"
	return out
}

// words are what the provider said, fit to be shown; "" for nothing.
func (f *Failure) words() string {
	if f.Err == nil {
		return ""
	}
	return scrub(f.Err.Message)
}

// ErrTooLong is the cause of a failure by an answer that is too large.
var ErrTooLong = errors.New("the answer is larger than the gateway holds for one client")

// tooLong tells the caller that an answer cannot be passed on.
func tooLong(cause error) *fault.Fault {
	out := fault.New(fault.Upstream, "the answer is larger than the gateway passes on", cause)
	out.Final = true
	return out
}

// public is the sentence that names the provider and its status, and nothing that the provider said: its words may speak of
// the operator's account.
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
	case f.misplaced():
		return fmt.Sprintf("provider %s answered with status %d, which is no answer: its address may be wrong", f.Provider, f.Status)
	case f.Status == 401 || f.Status == 402 || f.Status == 403:
		return fmt.Sprintf("provider %s refused the gateway's credential", f.Provider)
	}
	return fmt.Sprintf("provider %s failed with status %d", f.Provider, f.Status)
}

// callerFault passes on what a provider said about the caller's own request, with its status.
func callerFault(f *Failure) *fault.Fault {
	kind := CallerKind(f.Status)
	if kind == fault.NotFound && strings.Contains(strings.ToLower(f.Err.Message+f.Err.Code), "model") {
		kind = fault.ModelNotFound
	}
	msg := f.words()
	if msg == "" {
		msg = fmt.Sprintf("provider %s refused the request with status %d", f.Provider, f.Status)
	}
	return &fault.Fault{Kind: kind, Public: msg, Param: f.Err.Param, Code: codeOf(f.Err), Type: wordOf(f.Err.Type), Status: f.Status}
}

// codeOf is a provider's own code; a number, which repeats the status, is none.
func codeOf(e *chat.ProviderError) string {
	if strings.Trim(e.Code, "0123456789") == "" {
		return ""
	}
	return e.Code
}

// wordOf is a provider's word for a type of errors, if it is a word.
func wordOf(s string) string {
	const letters, most = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", 64
	if len(s) > most || strings.Trim(s, letters) != "" {
		return ""
	}
	return s
}

// CallerKind is the kind of a provider's refusal of the caller's own request, by its status.
func CallerKind(status int) fault.Kind {
	switch status {
	case 404:
		return fault.NotFound
	case 413:
		return fault.TooLarge
	}
	return fault.InvalidRequest
}

// ModelMissing reports whether a provider says that it does not have the model it was asked for, or not there any more (B-24).
func (f *Failure) ModelMissing(to *policy.Resolution) bool {
	switch {
	case f.Kind != ByStatus:
		return false
	case f.Status == http.StatusGone, f.Status == http.StatusMovedPermanently, f.Status == http.StatusPermanentRedirect:
		return true
	case f.Status != http.StatusNotFound || f.Err == nil:
		return false
	}
	said := strings.ToLower(f.Err.Message)
	return f.Err.Code == "model_not_found" || strings.Contains(said, "model") || strings.Contains(said, "no endpoints found") ||
		to.Upstream != "" && strings.Contains(said, strings.ToLower(to.Upstream))
}

// Reason says in a few words why the attempt ended, for its request's record. It has no words of the provider's, which may quote the prompt.
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
	reason := "the provider answered " + strconv.Itoa(f.Status)
	if f.Err != nil {
		if word := fault.ProvidersWord(f.Err.Type); word != "" {
			reason += " " + word
		}
	}
	return reason
}
