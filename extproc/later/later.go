// Package later has what a request needs besides others that is answered later (X-Bardo-Defer): which may be, what of one is stored, and the run that answers it:
// the same request again, from its stored bytes, with a client that only keeps the answer (Client), and without asking providers again for what they answered
// in an earlier run or in a batch (Run). The store and the worker are extproc/deferred; package extproc accepts such requests and serves them.
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

// headerDefer says by when a request is to be answered, and that it need not be before.
const headerDefer = "x-bardo-defer"

// headerSession names a request's session.
const headerSession = "x-bardo-session-id"

// How long a request may be deferred.
const (
	leastDefer = time.Minute
	mostDefer  = 24 * time.Hour
)

// Parse reads X-Bardo-Defer: how long from now the answer may take; 0 for a request without it. enabled is false for a gateway that answers no requests later. The
// error is a fault.
func Parse(v *request.View, enabled bool) (time.Duration, error) {
	said := v.Head.Header.Get(headerDefer)
	if said == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(said)
	if err != nil || d < leastDefer || d > mostDefer {
		return 0, fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: expected a duration from 1m to 24h, such as 24h, not %q", fault.Clip(said))
	}
	switch {
	case !enabled:
		return 0, fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: this gateway answers no requests later (deferred.mode)")
	case v.Principal.Account == "":
		return 0, fault.Newf(fault.InvalidAPIKey, "X-Bardo-Defer: an answer that comes later belongs to an API key: send one")
	case v.OwnKey.IsSet():
		return 0, fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a request with X-Bardo-Upstream-Key is answered now, because the key is not stored")
	}
	return d, nil
}

// CheckEndpoint refuses a request at an endpoint whose answers do not come later. The error is a fault.
func CheckEndpoint(v *request.View, e *endpoint.Endpoint) error {
	if !e.Stored && !e.Compact && e.Modality == nil && e.Op == chat.Generate {
		return nil
	}
	return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: requests to %s are answered now", fault.Clip(v.Head.Path))
}

// Check refuses a request whose answer is of no use later, or must not be stored. encrypts says whether stored requests are encrypted. The error is a fault.
func Check(v *request.View, encrypts bool) error {
	sub := v.Hints.Subsystem
	switch secret := IsSecret(v); {
	case v.Request.Stream:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: an answer that comes later is not streamed: leave out stream")
	case sub != "" && !intent.Offline(sub):
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: the subsystem %s needs its answers now; dreams, and the other subsystems that work offline, may wait", fault.Clip(sub))
	case v.NeedsEnclave():
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: requests to enclaves are not stored")
	case secret && !encrypts:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a %s request is stored only where the operator has it encrypted (deferred.key)", secrecy(v))
	}
	return nil
}

// secrecy says why a request is secret.
func secrecy(v *request.View) string {
	if c := max(v.Hints.SecurityClass, v.Intent.Security); c != policy.SecurityStandard {
		return c.String()
	}
	return "private"
}

// IsSecret reports whether the request is stored encrypted or not at all, and is never part of a batch: its provider would store it, too.
func IsSecret(v *request.View) bool {
	return v.KeepsNothing()
}

// storedHeaders are the client's headers that a run reads, besides hints. No other is stored: it may be a credential, of a proxy's or of a client's own.
var storedHeaders = map[string]bool{
	"accept": true, "accept-language": true, "anthropic-beta": true, "anthropic-version": true, "content-length": true, "content-type": true,
	record.TraceParent: true, "user-agent": true, "x-forwarded-proto": true, "x-request-id": true,
}

// own is how the gateway's own headers begin.
const own = "x-bardo-"

// isStored reports whether a header of the client is stored. Those of HTTP/2 are the request itself. Of the gateway's own, credentials are not, nor
// what holds for the first answer alone.
func isStored(name string) bool {
	return storedHeaders[name] || strings.HasPrefix(name, ":") || strings.HasPrefix(name, own) && !header.IsCredential(name) && name != headerDefer
}

// StoredHead is a request's head without credentials, and with the session that a credential may have named. Nor is the cache used: a run may read the answer of
// a batch that was paid for.
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

// NotStored is what the client is told of a request that could not be stored.
func NotStored(err error) error {
	if !errors.Is(err, deferred.ErrFull) {
		return fault.New(fault.Unavailable, "requests cannot be stored at the moment", err)
	}
	f := fault.New(fault.RateLimited, "this key has as many deferred requests, or bytes of them, as it may have (deferred.max_requests, deferred.max_bytes): read their answers, or cancel some", err)
	f.RetryAfter, f.Final = time.Minute, true
	return f
}

// IsMasked reports whether a layer replaced values of the request: an answer to it can be understood with the same replacements alone.
func IsMasked(log []pipeline.Entry) bool {
	return slices.ContainsFunc(log, func(e pipeline.Entry) bool { return strings.HasPrefix(e.Note, "masked") })
}
