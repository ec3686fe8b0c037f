package intent

import (
	"slices"

	"bardo.money/gateway/policy"
)

// taskTiers says how private each kind of task is at least (P-04). No log is what every private provider gives anyway.
var taskTiers = []struct {
	class string
	tier  policy.PrivacyTier
}{
	{"heartbeat", policy.PrivacyNoLog},
	{"plan", policy.PrivacyTEE},
	{"trade", policy.PrivacyTEE},
	{"negotiate", policy.PrivacyTEE},
	{"dream_nrem", policy.PrivacyNoLog},
	{"dream_rem", policy.PrivacyNoLog},
	{"dream_integration", policy.PrivacyTEE},
	{"incident", policy.PrivacyNoLog},
	{"sealed_auction", policy.PrivacyEndToEnd},
	{"mev_scenario", policy.PrivacyEndToEnd},
	{"testament", policy.PrivacyNoLog},
	{"judge", policy.PrivacyNoLog},
}

// TaskClasses are the kinds of task that have a tier.
func TaskClasses() []string {
	out := make([]string, len(taskTiers))
	for i := range taskTiers {
		out[i] = taskTiers[i].class
	}
	return out
}

// IsTaskClass tells whether a name is one of TaskClasses.
func IsTaskClass(name string) bool { return TierOf(name) != policy.PrivacyUnsaid }

// TierOf is how private a kind of task is at least; unsaid for a name that is none.
func TierOf(class string) policy.PrivacyTier {
	for i := range taskTiers {
		if taskTiers[i].class == class {
			return taskTiers[i].tier
		}
	}
	return policy.PrivacyUnsaid
}

// tier is how private the request must be: what its kind of task asks for, raised by what it says itself, never lowered (D-28).
func tier(h *policy.Hints) policy.PrivacyTier {
	t := max(TierOf(h.TaskClass), h.PrivacyTier)
	if h.TEE != nil && *h.TEE || h.Profile != nil && h.Profile.TEE != nil && *h.Profile.TEE {
		t = max(t, policy.PrivacyTEE)
	}
	return t
}

// applyPrivacy puts into the intent what its privacy tier asks of a provider. A kind of task that is content with no log asks for nothing: it
// may go to any provider (P-04), while a caller that says so prefers one without. An enclave is a preference, since D-12 lets
// work go on without it; what was sealed end to end is a requirement.
func applyPrivacy(in *policy.Intent, h *policy.Hints) {
	switch t := tier(h); t {
	case policy.PrivacyUnsaid:
		return
	case policy.PrivacyNoLog:
		if h.PrivacyTier != t {
			return
		}
		addFeature(&in.Prefer, policy.Privacy)
	case policy.PrivacyTEE:
		addFeature(&in.Prefer, policy.TEEAttested)
		addFeature(&in.Prefer, policy.Privacy)
	case policy.PrivacyEndToEnd:
		addFeature(&in.Require, policy.EndToEndEncryption)
		addFeature(&in.Prefer, policy.Privacy)
	}
	in.PrivacyTier = tier(h)
}

// addFeature adds a feature to a list, once. The list may be a shared one: it is never changed in place.
func addFeature(list *[]policy.Feature, f policy.Feature) {
	if !slices.Contains(*list, f) {
		*list = append(slices.Clip(*list), f)
	}
}
