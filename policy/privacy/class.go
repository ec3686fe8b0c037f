// Package privacy says how private each class of an agent's tasks has to be, and what a request of each tier may hold. It is pure: it knows no
// provider, and nothing of how a request is sent.
package privacy

import (
	"strings"

	"bardo.money/gateway/policy"
)

// classes says how private each class of tasks is at least (P-04).
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

// Classes are the classes of tasks.
func Classes() []string {
	out := make([]string, len(classes))
	for i := range classes {
		out[i] = classes[i].name
	}
	return out
}

// IsClass reports whether a name is one of Classes.
func IsClass(name string) bool { return TierOf(name) != policy.PrivacyUnset }

// TierOf is how private a class is at least; unsaid for any other name.
func TierOf(class string) policy.PrivacyTier {
	for i := range classes {
		if classes[i].name == class {
			return classes[i].tier
		}
	}
	return policy.PrivacyUnset
}

// ClassOf is the class of a request: as its hint says, else as its subsystem implies; "" if nothing does.
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

// Tier is how private a request has to be: what its class asks for, raised by its own hints, never lowered (D-28).
func Tier(h *policy.Hints) policy.PrivacyTier {
	t := max(TierOf(h.TaskClass), h.PrivacyTier)
	if h.TEE != nil && *h.TEE || h.Profile != nil && h.Profile.TEE != nil && *h.Profile.TEE {
		t = max(t, policy.PrivacyTEE)
	}
	return t
}

// Plane is which classes of tasks a deployment's private plane receives.
type Plane uint8

// The planes.
const (
	Sensitive Plane = iota // those that need an enclave or encryption
	All                    // all: the tier of every class is in force
	None                   // none: no tier is in force
)

// Wanted is the tier that a request asks for. A class whose tier is private asks for nothing unless the private plane receives all classes: it may go to any
// provider (P-04), and only a hint asks for that tier then. It is what an intent holds, which all who ask whether a request is private look at.
func Wanted(h *policy.Hints, to Plane) policy.PrivacyTier {
	t := Tier(h)
	if t == policy.PrivacyNoLog && h.PrivacyTier != t && to != All {
		return policy.PrivacyUnset
	}
	return t
}

// InForce is the tier whose constraints a request has to meet: the one that it asks for, unless no tier is in force.
func InForce(h *policy.Hints, to Plane) policy.PrivacyTier {
	if to == None {
		return policy.PrivacyUnset
	}
	return Wanted(h, to)
}
