package policy

import "net/http"

// Retriable reports whether a request that a provider answered with this status should be retried, at another provider or at the same one a moment
// later. The reason is not the request: the provider's credential or account is refused, its limit is reached, it failed, or its answer is neither an
// answer nor an error (1xx, 3xx). Other statuses below 500 are about the request: it would fail everywhere. This is the only such table; Envoy's
// retry policy is generated from it.
func Retriable(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 || misplaced(status)
}

// The address that Envoy connects to for a name that does not resolve: nothing listens there.
const (
	NoAddressHost = "127.0.0.1"
	NoAddressPort = 2
)

// RefusedOrNoAddress is part of a failure's reason if a connection was refused and it is unknown whether the host's name resolves.
const RefusedOrNoAddress = "Connection_refused_or_no_address"

// misplaced reports whether a status is neither an answer nor an error.
func misplaced(status int) bool {
	return status >= 100 && status < 200 || status >= 300 && status < 400
}

// Lasting reports whether a provider would probably answer with the same status a moment later. For a reached limit that is likely unless Retry-After
// says otherwise.
func Lasting(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusPermanentRedirect, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusGone:
		return true
	}
	return false
}
