package intent

import (
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// applyPrivacy puts into the intent the privacy tier that the request asks for, and what that asks of a provider. An enclave is a preference, since D-12 lets
// work go on without it; what was sealed end to end is a requirement.
func applyPrivacy(in *policy.Intent, h *policy.Hints, to privacy.Plane) {
	t := privacy.Wanted(h, to)
	switch t {
	case policy.PrivacyUnset:
		return
	case policy.PrivacyNoLog:
		addFeature(&in.Prefer, policy.Privacy)
	case policy.PrivacyTEE:
		addFeature(&in.Prefer, policy.TEEAttested)
		addFeature(&in.Prefer, policy.Privacy)
	case policy.PrivacyEndToEnd:
		addFeature(&in.Require, policy.EndToEndEncryption)
		addFeature(&in.Prefer, policy.Privacy)
	}
	in.PrivacyTier = t
}

// addFeature adds a feature to a list, once. The list may be a shared one: it is never changed in place.
func addFeature(list *[]policy.Feature, f policy.Feature) {
	if !slices.Contains(*list, f) {
		*list = append(slices.Clip(*list), f)
	}
}
