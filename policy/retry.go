package policy

import "net/http"

// Retriable reports whether another provider, or the same one a moment later, may answer a request that a provider answered with a status.
// It says nothing about the request itself: the provider's credential or account is refused, its limit is reached, it failed, or it answered
// with what is neither an answer nor an error (1xx, 3xx). Other statuses below 500 are about the request: it would fail everywhere. It is the
// one table of that; Envoy's retry policy is made from it.
func Retriable(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 || misplaced(status)
}

// Where Envoy connects in place of a name that has no address: nothing listens there.
const (
	NoAddressHost = "127.0.0.1"
	NoAddressPort = 2
)

// RefusedOrNoAddress stands in the reason of a failure for a refused connection of which it is not known whether the name of its host has an address.
const RefusedOrNoAddress = "Connection_refused_or_no_address"

// misplaced reports whether a status is neither an answer nor an error.
func misplaced(status int) bool {
	return status >= 100 && status < 200 || status >= 300 && status < 400
}

// Lasting reports whether the provider that answered with a status would answer so a moment later, too. With a limit that is reached, that is
// likely, but for the time that Retry-After names.
func Lasting(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusPermanentRedirect, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusGone:
		return true
	}
	return false
}
