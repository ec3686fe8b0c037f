package policy

import (
	"slices"
	"time"
)

// Quality is a class of models, from the cheapest sufficient one to the best. The zero value is unset.
type Quality uint8

// The classes, in order.
const (
	QualityUnset Quality = iota
	QualityMinimum
	QualityLow
	QualityMedium
	QualityHigh
	QualityMaximum
)

var qualities = []string{"", "minimum", "low", "medium", "high", "maximum"}

// String is the class's name, "" for the zero value.
func (q Quality) String() string { return nameOf(qualities, q) }

// ParseQuality reads a class by its name; ok is false for anything else.
func ParseQuality(s string) (q Quality, ok bool) { return parse[Quality](qualities, s) }

// Downgrade returns the class below, but not below low, so that a model that can reason stays.
func (q Quality) Downgrade() Quality {
	if q > QualityLow {
		return q - 1
	}
	return q
}

// Effort is how hard a model is to reason. The zero value is unset: the provider's default.
type Effort uint8

// The efforts, in order.
const (
	EffortUnset Effort = iota
	EffortNone
	EffortLow
	EffortMedium
	EffortHigh
	EffortMax
)

var efforts = []string{"", "none", "low", "medium", "high", "max"}

// String is the effort's name, "" for the zero value.
func (e Effort) String() string { return nameOf(efforts, e) }

// ParseEffort reads an effort by its name; ok is false for anything else.
func ParseEffort(s string) (e Effort, ok bool) { return parse[Effort](efforts, s) }

// Downgrade is the effort below, down to none.
func (e Effort) Downgrade() Effort {
	if e > EffortNone {
		return e - 1
	}
	return e
}

// SecurityClass is the confidentiality of a prompt. The zero value is standard.
type SecurityClass uint8

// The classes. Private is never relaxed: such a request is only served by providers that retain nothing.
const (
	SecurityStandard SecurityClass = iota
	SecurityConfidential
	SecurityPrivate
)

var securityClasses = []string{"standard", "confidential", "private"}

// String is the class's name.
func (c SecurityClass) String() string { return nameOf(securityClasses, c) }

// ParseSecurityClass reads a class by its name; ok is false for anything else.
func ParseSecurityClass(s string) (c SecurityClass, ok bool) {
	return parse[SecurityClass](securityClasses, s)
}

// PrivacyTier is how little a provider's host has to be trusted. The zero value requires nothing.
type PrivacyTier uint8

// The tiers, in order of strength.
const (
	PrivacyUnset    PrivacyTier = iota
	PrivacyNoLog                // nothing is retained
	PrivacyTEE                  // inference runs in an attested enclave
	PrivacyEndToEnd             // the host sees ciphertext only
)

var privacyTiers = []string{"", "private", "tee", "e2e"}

// String is the tier's name, "" for the zero value.
func (t PrivacyTier) String() string { return nameOf(privacyTiers, t) }

// ParsePrivacyTier reads a tier by its name; ok is false for anything else.
func ParsePrivacyTier(s string) (t PrivacyTier, ok bool) {
	return parse[PrivacyTier](privacyTiers, s)
}

// Phase is an agent's phase of life, by its remaining lifespan. The zero value is unset.
type Phase uint8

// The phases, from the healthiest.
const (
	PhaseUnset Phase = iota
	PhaseThriving
	PhaseStable
	PhaseConservation
	PhaseDeclining
	PhaseTerminal
)

var phases = []string{"", "thriving", "stable", "conservation", "declining", "terminal"}

const aliasDesperate = "desperate"

// String is the phase's name, "" for the zero value.
func (p Phase) String() string { return nameOf(phases, p) }

// ParsePhase reads a phase by its name in lower case; "desperate" is declining. ok is false for anything else.
func ParsePhase(s string) (p Phase, ok bool) {
	if s == aliasDesperate {
		return PhaseDeclining, true
	}
	return parse[Phase](phases, s)
}

// nameOf and parse map the enumerations above to their names and back. parse refuses "", the name of the zero value.
func nameOf[T ~uint8](names []string, v T) string {
	if int(v) >= len(names) {
		return ""
	}
	return names[v]
}

func parse[T ~uint8](names []string, s string) (v T, ok bool) {
	i := slices.Index(names, s)
	if i < 0 || s == "" {
		return 0, false
	}
	return T(i), true
}

// Intent is what a request needs: pure data, without a reference to providers that fit. The zero value needs nothing and accepts anything.
type Intent struct {
	Subsystem     string // the sending subsystem, by the intent's own name; "" for other clients
	SubsystemName string // the subsystem as the client named it, which may be more specific: dream_rem for dream

	Model    string     // as the client wrote it; "" leaves the choice to the gateway
	Provider ProviderID // that a "provider/model" id forced, or ""

	First          string       // the operator's preferred model, as "provider/model" or an id alone; other candidates follow it
	Barred         []ProviderID // providers that the caller's plan excludes, see Bars; never relaxed
	ExcludedFamily string       // for a verification: the family of the models that gave the first answer, which is excluded

	Require         []Feature // the strict pass requires all of them
	Prefer          []Feature // missing ones are listed as degraded
	Quality         Quality   // a floor in the strict pass, a preference in the relaxed one
	MaxLatency      time.Duration
	CostSensitivity float64 // 0: cost does not matter; 1: nothing else does
	DIEM            bool    // staked Venice credit is available
	Security        SecurityClass
	PrivacyTier     PrivacyTier
	Effort          Effort // with high or max, the strict pass requires a model that reasons
	Schema          bool   // the answer must follow a schema: the strict pass requires a model that enforces one, or calls tools
	Tools, Images   bool   // content of the request
	Audio, Video    bool   // as Tools, Images
	Documents       bool   // files that are not text

	InputTokens  int64 // estimate, for windows and costs
	OutputTokens int64 // maximum, for windows and costs

	// Only for auto.
	Expected int64 // usual output tokens of its task
	ServedBy ServedBy
}

// ServedBy is the model that has served a conversation so far. The zero value is none.
type ServedBy struct {
	Provider ProviderID
	Model    ModelID
	Quality  Quality // the quality that it needed
	Tokens   int64   // tokens that may still be in the provider's cache
}

// Hinted reports whether the intent states its needs. If so the ordered resolver decides, otherwise the scorer.
func (in *Intent) Hinted() bool {
	return in.Subsystem != "" || len(in.Require) > 0 || len(in.Prefer) > 0
}

// Bars reports whether the caller's plan excludes a provider: by its name, or as part of a section, as direct/openai is of direct.
func (in *Intent) Bars(p ProviderID) bool {
	for _, b := range in.Barred {
		if p == b || len(p) > len(b) && p[:len(b)] == b && p[len(b)] == '/' {
			return true
		}
	}
	return false
}

// IsPrivate reports whether no provider may retain the request: it is confidential or private, or its privacy tier or a required feature rules out
// logging.
func (in *Intent) IsPrivate() bool {
	return in.Security != SecurityStandard || in.PrivacyTier != PrivacyUnset || slices.ContainsFunc(in.Require, Feature.KeepsPrivate)
}
