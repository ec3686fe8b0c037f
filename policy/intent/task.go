package intent

import (
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// applyPrivacy sets the intent's privacy tier, and the features that it requires of a provider. An enclave is a preference, because D-12 allows
// continuing without one; end-to-end encryption is a requirement.
func applyPrivacy(in *policy.Intent, h *policy.Hints, to privacy.Plane) {
	t := privacy.RequestedTier(h, to)
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

// addFeature adds a feature to a list, once. The list may be shared: it is never changed in place.
func addFeature(list *[]policy.Feature, f policy.Feature) {
	if !slices.Contains(*list, f) {
		*list = append(slices.Clip(*list), f)
	}
}
