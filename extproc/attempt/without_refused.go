package attempt

import (
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// WithoutRefused returns the candidate changed so that its next attempt omits what it refused; ok is false if it refused something else, or its
// adapter cannot omit it.
func WithoutRefused(v *request.View, to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if f.Kind != upstream.ByStatus || f.Err == nil {
		return to, false
	}
	if again, ok := withoutParams(v, to, f); ok {
		return again, true
	}
	p := v.Config.Provider(to.Provider)
	a, ok := p.Adapter.(provider.Amender)
	if !ok {
		return to, false
	}
	return a.Amend(v.Request, to, p.Endpoint, f.Err)
}

// withoutParams omits the profile's parameters that the provider refused: the client did not send them, so they must not cause an error.
func withoutParams(v *request.View, to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return to, false
	}
	refused := v.Request.Profile.Without(to.Without.Params).Refused(f.Err)
	if len(refused) == 0 {
		return to, false
	}
	to.Without.Params = slices.Concat(to.Without.Params, refused)
	return to, true
}

// SwitchToChat reports whether a provider lacks /completions (404, 405). It sets to.Without.Completions: the next attempt is a chat request.
func SwitchToChat(v *request.View, to *policy.Resolution, f *upstream.Failure) bool {
	if v.Request.Turn == nil || v.DialectAt(to) != chat.Completions || f.Kind != upstream.ByStatus {
		return false
	}
	lacks := f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed
	to.Without.Completions = lacks
	return lacks
}
