// Package privacy defines the minimum privacy of each class of an agent's tasks, and what a request of each tier may contain. It is pure: it knows no
// provider, and not how a request is sent.
package privacy

import (
	"strings"

	"bardo.money/gateway/policy"
)

// classes are the minimum privacy tiers of the classes of tasks (P-04).
var classes = []struct {
	name string
	tier policy.PrivacyTier
}{
	{"heartbeat", policy.PrivacyNoLog},
	{"plan", policy.PrivacyTEE},
	{"trade", policy.PrivacyTEE},
	{"negotiate", policy.PrivacyTEE},
	{"dream_nrem", policy.PrivacyNoLog},
	{classREM, policy.PrivacyNoLog},
	{"dream_integration", policy.PrivacyTEE},
	{"incident", policy.PrivacyNoLog},
	{"sealed_auction", policy.PrivacyEndToEnd},
	{"mev_scenario", policy.PrivacyEndToEnd},
	{classTestament, policy.PrivacyNoLog},
	{"judge", policy.PrivacyNoLog},
}

// The classes with exceptions of their own: see Of.
const (
	classREM       = "dream_rem"
	classTestament = "testament"
)

// Classes returns the classes of tasks.
func Classes() []string {
	out := make([]string, len(classes))
	for i := range classes {
		out[i] = classes[i].name
	}
	return out
}

// IsClass reports whether a name is one of Classes.
func IsClass(name string) bool { return TierOf(name) != policy.PrivacyUnset }

// TierOf returns the minimum tier of a class; unset for any other name.
func TierOf(class string) policy.PrivacyTier {
	for i := range classes {
		if classes[i].name == class {
			return classes[i].tier
		}
	}
	return policy.PrivacyUnset
}

// ClassOf returns the class of a request: its hint's, else its subsystem's; "" if there is none.
func ClassOf(h *policy.Hints) string {
	switch {
	case h.TaskClass != "":
		return h.TaskClass
	case IsClass(h.Subsystem):
		return h.Subsystem
	case strings.HasPrefix(h.Subsystem, "heartbeat"):
		return "heartbeat"
	case h.Subsystem == "death_testament":
		return classTestament
	}
	return ""
}

// Tier returns a request's tier: its class's, raised by its own hints, never lowered (D-28).
func Tier(h *policy.Hints) policy.PrivacyTier {
	t := max(TierOf(h.TaskClass), h.PrivacyTier)
	if h.TEE != nil && *h.TEE || h.Profile != nil && h.Profile.TEE != nil && *h.Profile.TEE {
		t = max(t, policy.PrivacyTEE)
	}
	return t
}

// Plane selects the classes of tasks that a deployment's private plane receives.
type Plane uint8

// The planes.
const (
	Sensitive Plane = iota // classes that need an enclave or encryption
	All                    // all classes: every tier is in force
	None                   // no classes: no tier is in force
)

// RequestedTier returns the tier that a request asks for. A class whose tier is private asks for nothing unless the private plane receives all classes: any
// provider may serve it (P-04), and only a hint asks for that tier. Intents hold this tier, and every check of a request's privacy uses it.
func RequestedTier(h *policy.Hints, to Plane) policy.PrivacyTier {
	t := Tier(h)
	if t == policy.PrivacyNoLog && h.PrivacyTier != t && to != All {
		return policy.PrivacyUnset
	}
	return t
}

// InForce returns the tier whose constraints a request has to meet: the one that it asks for, unless no tier is in force.
func InForce(h *policy.Hints, to Plane) policy.PrivacyTier {
	if to == None {
		return policy.PrivacyUnset
	}
	return RequestedTier(h, to)
}
