package policy

import (
	"slices"
	"time"
)

// Quality is a class of models, from the cheapest that will do to the best there is. The zero value says nothing.
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

// Downgrade is the class below, down to low: a request that asked for more than nothing keeps a model that can think.
func (q Quality) Downgrade() Quality {
	if q > QualityLow {
		return q - 1
	}
	return q
}

// Effort is how hard a model is to reason. The zero value says nothing, which is the provider's default.
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

// SecurityClass is how secret a prompt is. The zero value is standard.
type SecurityClass uint8

// The classes. Private is never relaxed: such a request goes to providers that retain nothing, or to nobody.
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

// PrivacyTier is how little a provider's host has to be trusted. The zero value asks for nothing.
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

// Phase is how much life an agent has left, in five words. The zero value says nothing.
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

// nameOf and parse join the small numbers above to their names. The name "" is never read: it is what is left out.
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

// Intent is what a request needs: pure data, without a word on who serves it. The zero value needs nothing and takes anything.
type Intent struct {
	Subsystem string // the one that sends the request, by the intent's own name; "" for other clients
	Asked     string // the part as the client named it, which may be finer: dream_rem for dream

	Model    string     // as the client wrote it; "" leaves the choice to the gateway
	Provider ProviderID // that a "provider/model" id forced, or ""

	First   string       // the model that the operator wants first, as "provider/model" or an id alone; what else fits stays behind it
	Barred  []ProviderID // who may not serve it, because the caller's plan does not include them, see Bars; never relaxed
	Besides string       // a second opinion is wanted: the family of models whose answer is there, and that may not serve it

	Require         []Feature // the strict pass wants all of them
	Prefer          []Feature // what is missing is named as degraded
	Quality         Quality   // a floor in the strict pass, a preference in the relaxed one
	MaxLatency      time.Duration
	CostSensitivity float64 // 0: cost does not matter; 1: nothing else does
	DIEM            bool    // staked Venice credit is there to be used
	Security        SecurityClass
	PrivacyTier     PrivacyTier
	Effort          Effort // with high or max, the strict pass wants a model that reasons
	Schema          bool   // the answer must follow a schema: the strict pass wants a model that enforces one, or calls tools
	Tools, Images   bool   // what the request holds
	Audio, Video    bool   // besides
	Documents       bool   // files that are no text

	InputTokens  int64 // estimate, for windows and costs
	OutputTokens int64 // the most that may come, for windows and costs

	// Of a request that leaves its model to the gateway.
	Expected int64 // the output tokens that its task usually has
	Kept     Kept
}

// Kept is where a conversation has been served so far. The zero value is nowhere.
type Kept struct {
	Provider ProviderID
	Model    ModelID
	Quality  Quality // that it needed
	Tokens   int64   // of it that the provider's cache may still hold
}

// Hinted tells whether the intent says what it needs: the ordered resolver decides then, else the scorer does.
func (in *Intent) Hinted() bool {
	return in.Subsystem != "" || len(in.Require) > 0 || len(in.Prefer) > 0
}

// Bars tells whether the caller's plan leaves a provider out: by its name, or as one of a section, as direct/openai is of direct.
func (in *Intent) Bars(p ProviderID) bool {
	for _, b := range in.Barred {
		if p == b || len(p) > len(b) && p[:len(b)] == b && p[len(b)] == '/' {
			return true
		}
	}
	return false
}

// IsPrivate reports whether nobody may keep what the request says: it is confidential or private, or its provider must not log it or must keep it private, by its
// tier of privacy or by a feature that it requires.
func (in *Intent) IsPrivate() bool {
	return in.Security != SecurityStandard || in.PrivacyTier != PrivacyUnset || slices.ContainsFunc(in.Require, Feature.KeepsPrivate)
}
