// Package later serves deferred requests (X-Bardo-Defer): which requests can be deferred, what is stored of them, and the run that answers one: the
// same request again, from its stored bytes, with a client that only stores the answer (Client), reusing providers' answers from an earlier run or a
// batch (Run). The store and the worker are in extproc/deferred; package extproc accepts such requests and serves them.
package later

import (
	"errors"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// headerDefer is the deadline of a request that may be answered later.
const headerDefer = "x-bardo-defer"

// headerSession names a request's session.
const headerSession = "x-bardo-session-id"

// Limits of a deferral.
const (
	leastDefer = time.Minute
	mostDefer  = 24 * time.Hour
)

// Parse parses X-Bardo-Defer: the deadline from now; 0 for a request without it. enabled is false if the gateway does not support it. The error is a
// fault.
func Parse(v *request.View, enabled bool) (time.Duration, error) {
	value := v.Head.Header.Get(headerDefer)
	if value == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < leastDefer || d > mostDefer {
		return 0, fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: expected a duration from 1m to 24h, such as 24h, not %q", fault.Clip(value))
	}
	switch {
	case !enabled:
		return 0, fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: this gateway answers no requests later (deferred.mode)")
	case v.Principal.Account == "":
		return 0, fault.Newf(fault.InvalidAPIKey, "X-Bardo-Defer: a deferred answer belongs to an API key: send one")
	case v.OwnKey.IsSet():
		return 0, fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a request with X-Bardo-Upstream-Key is answered now, because the key is not stored")
	}
	return d, nil
}

// CheckEndpoint refuses a request at an endpoint that does not support it. The error is a fault.
func CheckEndpoint(v *request.View, e *endpoint.Endpoint) error {
	if !e.Stored && !e.Compact && e.Modality == nil && e.Op == chat.Generate {
		return nil
	}
	return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: requests to %s are answered now", fault.Clip(v.Head.Path))
}

// Check refuses a request whose answer is useless later, or must not be stored. encrypts reports whether stored requests are encrypted. The error is
// a fault.
func Check(v *request.View, encrypts bool) error {
	sub := v.Hints.Subsystem
	switch secret := IsSecret(v); {
	case v.Request.Stream:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a deferred answer is not streamed: leave out stream")
	case sub != "" && !intent.Offline(sub):
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: the subsystem %s needs its answers now; dreams, and the other subsystems that work offline, may wait", fault.Clip(sub))
	case v.NeedsEnclave():
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: requests to enclaves are not stored")
	case secret && !encrypts:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a %s request is stored only where the operator has it encrypted (deferred.key)", secretReason(v))
	}
	return nil
}

// secretReason returns why a request is secret.
func secretReason(v *request.View) string {
	if c := max(v.Hints.SecurityClass, v.Intent.Security); c != policy.SecurityStandard {
		return c.String()
	}
	return "private"
}

// IsSecret reports whether the request must be stored encrypted or not at all, and must not be part of a batch: its provider would store it as well.
func IsSecret(v *request.View) bool {
	return v.KeepsNothing()
}

// storedHeaders are the client's headers, besides hints, that a run reads. No other is stored, since it may be a credential, of a proxy or of the
// client.
var storedHeaders = map[string]bool{
	"accept": true, "accept-language": true, "anthropic-beta": true, "anthropic-version": true, "content-length": true, "content-type": true,
	record.TraceParent: true, "user-agent": true, "x-forwarded-proto": true, "x-request-id": true,
}

// ownPrefix is the prefix of the gateway's own headers.
const ownPrefix = "x-bardo-"

// isStored reports whether a header of the client is stored. Pseudo-headers are part of the request itself. Of the gateway's own, credentials are not
// stored, nor those that only apply to the first answer.
func isStored(name string) bool {
	return storedHeaders[name] || strings.HasPrefix(name, ":") || strings.HasPrefix(name, ownPrefix) && !header.IsCredential(name) && name != headerDefer
}

// StoredHead returns a request's head without credentials, and with the session that a credential may have named. The cache is disabled: a run may
// read the paid answer of a batch.
func StoredHead(hd stream.Head, session string) stream.Head {
	hd.Header = slices.DeleteFunc(slices.Clone(hd.Header), func(f header.Field) bool {
		return !isStored(f.Name) || session != "" && f.Name == headerSession
	})
	if session != "" {
		hd.Header = append(hd.Header, header.Field{Name: headerSession, Value: session})
	}
	hd.Header = append(hd.Header, header.Field{Name: "x-bardo-cache", Value: "off"})
	hd.Query, hd.Forged = "", nil
	return hd
}

// NotStored returns the client's error for a request that could not be stored.
func NotStored(err error) error {
	if !errors.Is(err, deferred.ErrFull) {
		return fault.New(fault.Unavailable, "requests cannot be stored at the moment", err)
	}
	f := fault.New(fault.RateLimited, "this key has as many deferred requests, or bytes of them, as it may have (deferred.max_requests, deferred.max_bytes): read their answers, or cancel some", err)
	f.RetryAfter, f.Final = time.Minute, true
	return f
}

// IsMasked reports whether a layer masked values of the request: its answer can only be unmasked with the same replacements.
func IsMasked(log []pipeline.Entry) bool {
	return slices.ContainsFunc(log, func(e pipeline.Entry) bool { return strings.HasPrefix(e.Note, "masked") })
}
