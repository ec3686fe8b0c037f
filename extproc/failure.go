package extproc

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// failure is why one attempt did not answer.
type failure struct {
	provider   policy.ProviderID
	kind       failureKind
	status     int           // the provider's, or what its error event implies; 0 without one
	retryAfter time.Duration // what a 429 asked for
	err        *chat.ProviderError
	cause      error // for logs
	unknown    bool  // with failConnect: Envoy does not know the provider's cluster yet, so nobody was asked
}

type failureKind uint8

const (
	failStatus  failureKind = iota // the provider said so: status or error event
	failConnect                    // no connection
	failReset                      // the connection broke, or the answer ended in the middle
	failTimeout                    // silence beyond the bound
	failForm                       // the answer does not have the form that was asked for
	failEncode                     // the request cannot be said in this provider's format; cause is a fault
)

// String is the reason as it is logged, counted and shown in a request's record.
func (f *failure) String() string {
	switch f.kind {
	case failConnect:
		return "connect"
	case failReset:
		return "reset"
	case failTimeout:
		return "timeout"
	case failForm:
		return "schema"
	case failEncode:
		return "encode"
	case failStatus:
		return fmt.Sprintf("status_%d", f.status)
	}
	return "unknown"
}

// retriable reports whether another provider may do better. A request that its own caller got wrong fails everywhere.
func (f *failure) retriable() bool {
	if f.kind != failStatus {
		return true
	}
	return policy.Retriable(f.status) || f.misplaced()
}

// misplaced reports whether the provider answered with a status that is neither an answer nor an error, as a redirect: its failure, which
// no client is shown (D-88).
func (f *failure) misplaced() bool { return f.kind == failStatus && f.status >= 100 && f.status < 400 }

// lasting reports whether the provider would answer the same request in the same way a moment later.
func (f *failure) lasting() bool {
	if f.kind != failStatus {
		return errors.Is(f.cause, errTooLong)
	}
	return policy.Lasting(f.status)
}

// result is what the failure says about the provider's health.
func (f *failure) result() policy.Result {
	r := policy.Result{Provider: f.provider, Outcome: policy.Failed}
	switch {
	case f.kind == failEncode || f.kind == failForm:
		r.Outcome = policy.Ignored
	case f.kind == failConnect && !f.unknown:
		r.Outcome, r.Reason = policy.Unreachable, unmet(f.cause)
	case f.kind != failStatus:
	case f.credentialRefused():
		r.Outcome, r.Reason = policy.Refused, f.refusal()
	case f.status == 429:
		r.Outcome, r.RetryAfter = policy.RateLimited, f.retryAfter
	case f.status == 402: // an empty account fails every request alike
	case f.status < 500 && f.status != 408 && !f.misplaced():
		r.Outcome = policy.Ignored // says nothing about whether the provider is up
	}
	return r
}

// unmetWords are what Envoy says of a connection that was not made, and what that means.
var unmetWords = []struct{ envoy, plain string }{
	{"Connection_refused", "connection refused"},
	{"WRONG_VERSION_NUMBER", "what listens there does not speak TLS"},
	{"CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted"},
	{"TLS_error", "the TLS handshake failed"},
	{"Network_is_unreachable", "the network is unreachable"},
	{"No_route_to_host", "no route to the host"},
	{"no_healthy_upstream", "its name has no address"},
	{"connection_timeout", "no answer in time"},
}

// unmet says why there was no connection, from what Envoy says of it.
func unmet(cause error) string {
	if cause == nil {
		return ""
	}
	for _, w := range unmetWords {
		if strings.Contains(cause.Error(), w.envoy) {
			return "no connection: " + w.plain
		}
	}
	return "no connection"
}

// credentialRefused reports whether the provider does not take the credential that it was called with. A 403 that concerns what the prompt
// says, as of a moderated model of OpenRouter, is not about the credential: otherwise any caller could put a provider out of favour.
func (f *failure) credentialRefused() bool {
	switch {
	case f.kind != failStatus:
		return false
	case f.status == http.StatusUnauthorized:
		return true
	case f.status != http.StatusForbidden:
		return false
	case f.err == nil:
		return true
	}
	said := strings.ToLower(f.err.Message)
	return !strings.Contains(said, "moderation") && !strings.Contains(said, "flagged")
}

// refusal says how the provider refused a credential: "401: " and its words.
func (f *failure) refusal() string {
	if words := f.words(); words != "" {
		return fmt.Sprintf("%d: %s", f.status, words)
	}
	return fmt.Sprintf("it answered %d to the gateway's credential", f.status)
}

// measure is the failure as the metrics count it.
func (f *failure) measure() telemetry.Outcome {
	switch f.kind {
	case failConnect:
		return telemetry.Refused
	case failReset:
		return telemetry.Reset
	case failTimeout:
		return telemetry.TimedOut
	case failEncode, failForm:
		return telemetry.Rejected
	case failStatus:
	}
	switch {
	case f.status == 429:
		return telemetry.RateLimited
	case f.status < 500 && !f.misplaced():
		return telemetry.Rejected
	}
	return telemetry.Failed
}

// statusFailure reads a provider's stated error.
func statusFailure(p policy.ProviderID, e *chat.ProviderError) *failure {
	if e.Type == "truncated" {
		return &failure{provider: p, kind: failReset, err: e}
	}
	return &failure{provider: p, kind: failStatus, status: e.Status, retryAfter: time.Duration(e.RetryAfter) * time.Second, err: e}
}

// cutFault is what the client sees when its stream ends in the middle: an error worth a retry, never one of its own making.
func (f *failure) cutFault() *fault.Fault {
	if f.kind == failTimeout {
		return fault.New(fault.UpstreamTimeout, fmt.Sprintf("provider %s fell silent in the middle of its answer", f.provider), f.cause)
	}
	if errors.Is(f.cause, errTooLong) {
		return tooLong(f.cause)
	}
	switch f.status { // stated inside the stream
	case 429:
		return fault.New(fault.RateLimited, fmt.Sprintf("provider %s reached its rate limit in the middle of its answer", f.provider), f.cause)
	case 503, 529:
		return fault.New(fault.Overloaded, fmt.Sprintf("provider %s became overloaded in the middle of its answer", f.provider), f.cause)
	}
	return fault.New(fault.Upstream, fmt.Sprintf("provider %s broke off its answer", f.provider), f.cause)
}

// localFailure reads why Envoy answered in a provider's place, from its response code details.
func localFailure(p policy.ProviderID, status int, details string) *failure {
	f := &failure{provider: p, kind: failReset, cause: fmt.Errorf("envoy answered %d: %s", status, details)}
	switch {
	case strings.Contains(details, "connection_failure"), strings.Contains(details, "no_healthy_upstream"),
		strings.Contains(details, "cluster_not_found"), strings.Contains(details, "connection_timeout"):
		f.kind, f.unknown = failConnect, strings.Contains(details, "cluster_not_found")
	case strings.Contains(details, "timeout"):
		f.kind = failTimeout
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

// statusOverloaded is Anthropic's own status. Its SDKs raise another class for it than for a 503.
const statusOverloaded = 529

// exhausted folds the failures of all attempts into the one fault that the client sees. All over their limits is a 429 with the
// smallest Retry-After; all overloaded is a 503; bad credentials of the operator's own are a 502 without the provider's words.
func exhausted(fs []*failure) *fault.Fault {
	if len(fs) == 0 {
		return fault.Newf(fault.NoProvider, "no provider is available for this request")
	}
	if said := slices.DeleteFunc(slices.Clone(fs), func(f *failure) bool { return f.kind == failEncode }); len(said) > 0 {
		fs = said // who could not be asked says nothing about those who were
	}
	last := fs[len(fs)-1]
	if last.kind == failEncode {
		return fault.From(last.cause)
	}
	if !last.retriable() {
		return callerFault(last)
	}
	count := func(match func(*failure) bool) bool {
		return !slices.ContainsFunc(fs, func(f *failure) bool { return !match(f) })
	}
	switch {
	case count(func(f *failure) bool { return f.kind == failStatus && f.status == 429 }):
		out := fault.Newf(fault.RateLimited, "every provider of this model is over its rate limit")
		for _, f := range fs {
			if f.retryAfter > 0 && (out.RetryAfter == 0 || f.retryAfter < out.RetryAfter) {
				out.RetryAfter = f.retryAfter
			}
		}
		out.RetryAfter = max(out.RetryAfter, time.Second)
		return out
	case count(func(f *failure) bool {
		return f.kind == failStatus && (f.status == 503 || f.status == 529 || f.status == 429)
	}):
		out := fault.Newf(fault.Overloaded, "every provider of this model is overloaded")
		out.RetryAfter = 5 * time.Second
		if count(func(f *failure) bool { return f.status == statusOverloaded }) {
			out.Status = statusOverloaded
		}
		return out
	case count(func(f *failure) bool { return f.kind == failStatus && f.status == 410 }):
		return modelGone(last)
	case last.kind == failTimeout || last.kind == failStatus && (last.status == 504 || last.status == 408):
		return fault.New(fault.UpstreamTimeout, fmt.Sprintf("provider %s did not answer in time", last.provider), last.cause)
	}
	out := fault.New(fault.Upstream, last.public(), last.cause)
	out.Final = count(func(f *failure) bool { return f.lasting() && !f.misplaced() })
	return out
}

// modelGone tells the caller that the providers of a model have it no more, in the last one's words.
func modelGone(last *failure) *fault.Fault {
	out := fault.Newf(fault.ModelNotFound, "provider %s does not have this model any more", last.provider)
	if words := last.words(); words != "" {
		out.Public += ": " + words
	}
	out.Param = "model"
	return out
}

// words are what the provider said, fit to be shown; "" for nothing.
func (f *failure) words() string {
	if f.err == nil {
		return ""
	}
	return scrub(f.err.Message)
}

// errTooLong is the cause of a failure by an answer that is too large.
var errTooLong = errors.New("the answer is larger than the gateway holds for one client")

// tooLong tells the caller that an answer cannot be passed on.
func tooLong(cause error) *fault.Fault {
	out := fault.New(fault.Upstream, "the answer is larger than the gateway passes on", cause)
	out.Final = true
	return out
}

// public is the sentence that names the provider and its status, and nothing that the provider said: its words may speak of
// the operator's account.
func (f *failure) public() string {
	switch {
	case f.kind == failConnect:
		return fmt.Sprintf("provider %s could not be reached", f.provider)
	case f.kind == failReset:
		return fmt.Sprintf("provider %s broke off its answer", f.provider)
	case f.misplaced():
		return fmt.Sprintf("provider %s answered with status %d, which is no answer: its address may be wrong", f.provider, f.status)
	case f.status == 401 || f.status == 402 || f.status == 403:
		return fmt.Sprintf("provider %s refused the gateway's credential", f.provider)
	}
	return fmt.Sprintf("provider %s failed with status %d", f.provider, f.status)
}

// callerFault passes on what a provider said about the caller's own request, with its status.
func callerFault(f *failure) *fault.Fault {
	kind := callerKind(f.status)
	if kind == fault.NotFound && strings.Contains(strings.ToLower(f.err.Message+f.err.Code), "model") {
		kind = fault.ModelNotFound
	}
	msg := f.words()
	if msg == "" {
		msg = fmt.Sprintf("provider %s refused the request with status %d", f.provider, f.status)
	}
	return &fault.Fault{Kind: kind, Public: msg, Param: f.err.Param, Code: codeOf(f.err), Type: wordOf(f.err.Type), Status: f.status}
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

// callerKind is the kind of a provider's refusal of the caller's own request, by its status.
func callerKind(status int) fault.Kind {
	switch status {
	case 404:
		return fault.NotFound
	case 413:
		return fault.TooLarge
	}
	return fault.InvalidRequest
}

// modelGone reports whether a provider says that it does not have the model it was asked for, or not there any more (B-24).
func (f *failure) modelGone(to *policy.Resolution) bool {
	switch {
	case f.kind != failStatus:
		return false
	case f.status == http.StatusGone, f.status == http.StatusMovedPermanently, f.status == http.StatusPermanentRedirect:
		return true
	case f.status != http.StatusNotFound || f.err == nil:
		return false
	}
	said := strings.ToLower(f.err.Message)
	return f.err.Code == "model_not_found" || strings.Contains(said, "model") || strings.Contains(said, "no endpoints found") ||
		to.Upstream != "" && strings.Contains(said, strings.ToLower(to.Upstream))
}
