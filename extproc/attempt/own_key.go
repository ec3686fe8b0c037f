package attempt

import (
	"net/http"

	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
)

// ConcernsOwnKey reports whether a failure is due to the request's own key or its permissions; it does not count against the provider's health.
func ConcernsOwnKey(v *request.View, f *upstream.Failure) bool {
	if !v.OwnKey.IsSet() || f.Kind != upstream.ByStatus {
		return false
	}
	switch f.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		return true
	}
	return false
}

// OwnKeyRefused returns the client's error if the last failure is the provider's refusal of the request's own key, else nil.
func OwnKeyRefused(v *request.View, fs []*upstream.Failure) *fault.Fault {
	if len(fs) == 0 || !ConcernsOwnKey(v, fs[len(fs)-1]) {
		return nil
	}
	switch last := fs[len(fs)-1]; last.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Newf(fault.InvalidAPIKey, "provider %s refused the key in X-Bardo-Upstream-Key", last.Provider)
	case http.StatusPaymentRequired:
		return fault.Newf(fault.InsufficientFunds, "the key in X-Bardo-Upstream-Key cannot pay at provider %s", last.Provider)
	}
	return nil
}
