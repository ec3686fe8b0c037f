package privacy

import (
	"slices"

	"bardo.money/gateway/policy"
)

// intentOfDreams is the intent of dreams. A dream's tier follows from its phase, so that no dream takes the default tier.
const intentOfDreams = "dream"

// TakesDefault reports whether the operator's default tier applies to a request (providers.venice.default_privacy_tier): the request goes to the
// private plane, and neither its class nor a hint sets its tier.
func TakesDefault(h *policy.Hints, in *policy.Intent, to Plane) bool {
	if to == None || Tier(h) != policy.PrivacyUnset || in.Subsystem == intentOfDreams {
		return false
	}
	return to == All && h.Subsystem != "" || in.Security == policy.SecurityPrivate || requiresPrivate(in.Require) || requiresPrivate(in.Prefer)
}

// requiresPrivate reports whether the features include a provider that retains nothing.
func requiresPrivate(features []policy.Feature) bool {
	return slices.Contains(features, policy.Privacy) || slices.Contains(features, policy.NoLog)
}
