package privacy

import (
	"slices"

	"bardo.money/gateway/policy"
)

// intentOfDreams is the intent of dreams. What a dream needs is said by its phase, so that none takes the default tier.
const intentOfDreams = "dream"

// TakesDefault reports whether the operator's default tier applies to a request (providers.venice.default_privacy_tier): it is one for the private plane,
// and neither its class nor a hint says its tier.
func TakesDefault(h *policy.Hints, in *policy.Intent, to Plane) bool {
	if to == None || Tier(h) != policy.PrivacyUnset || in.Subsystem == intentOfDreams {
		return false
	}
	return to == All && h.Subsystem != "" || in.Security == policy.SecurityPrivate || wants(in.Require) || wants(in.Prefer)
}

// wants reports whether a provider that retains nothing is among the features.
func wants(features []policy.Feature) bool {
	return slices.Contains(features, policy.Privacy) || slices.Contains(features, policy.NoLog)
}
