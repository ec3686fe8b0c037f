package intent

import (
	"strings"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// Facts are the properties of a request's content, without hints.
type Facts struct {
	Model    string            // as the client wrote it
	Provider policy.ProviderID // from a "provider/model" id, or ""

	InputTokens  int64 // estimate
	OutputTokens int64 // maximum
	MaxTokens    int   // the client's limit, 0 for none
	Effort       policy.Effort
	Schema       bool // the answer must follow a schema
	Images       bool
	Audio, Video bool
	Documents    bool // files that are not text
	Tools        int

	// Input of Infer; only set for auto.
	SystemBytes int
	Text        string            // the last user message
	Reading     *Reading          // of a classifier; nil: not called, or no result in time
	Earlier     [ReadTurns]string // earlier user messages: the first and the latest ones
}

// Rules are the operator's settings for all intents.
type Rules struct {
	Tiers  map[string]string                   // the models of the tiers T1 and T2, as "provider/model" or an id alone
	Barred map[policy.Tier][]policy.ProviderID // providers that a plan excludes; "direct" means all users' own keys

	Pipeline string // default pipeline profile; "" means standard

	DefaultTier policy.PrivacyTier // of private requests without a tier; unset: none
	Plane       privacy.Plane      // the classes of tasks whose tier is in force because they go to the private plane
}

// Built is an intent, and the changes to it that the client did not request.
type Built struct {
	policy.Intent
	Task Task     // the inferred task; without a name if it was not inferred
	Why  []string // reasons of the changes

	inferred policy.Quality
}

// Preset is a variant of auto.
type Preset uint8

// The presets.
const (
	Balanced Preset = iota
	Cheap           // cost before quality: one quality class less than inferred
	Best            // quality before cost: one class more, at least high
)

// Auto reports whether a model name is auto or one of its presets.
func Auto(model string) bool {
	_, ok := PresetOf(model)
	return ok
}

// PresetOf parses auto and its presets; ok is false for any other name.
func PresetOf(model string) (p Preset, ok bool) {
	name := strings.TrimPrefix(strings.ToLower(model), "bardo/")
	switch name {
	case "", "auto", "bardo":
		return Balanced, model == "" || name != "" // "bardo/" is not a name
	case "auto:cheap":
		return Cheap, true
	case "auto:best":
		return Best, true
	}
	return Balanced, false
}

// apply adjusts the inferred needs.
func (p Preset) apply(in *policy.Intent) {
	switch p {
	case Cheap:
		in.Quality, in.CostSensitivity = in.Quality.Downgrade(), 1
	case Best:
		in.Quality, in.CostSensitivity = min(max(in.Quality+1, policy.QualityHigh), policy.QualityMaximum), 0
	case Balanced:
	}
}

// KeepModel keeps a conversation at the model that has served it, with at least the quality that it needed there. A quality that the client requests
// overrides that.
func (b *Built) KeepModel(at policy.ServedBy) {
	if b.ServedBy = at; b.Quality == b.inferred {
		b.Quality = max(b.Quality, at.Quality)
	}
}

// Build computes a request's intent: the subsystem's intent, overridden by the client's hints, limited by vitality and the key's plan, plus the needs
// of the content. For auto without hints the needs are inferred. It is pure; the intent's lists may be shared, so clip them before appending.
func Build(h *policy.Hints, f *Facts, who *policy.Principal, rules *Rules) Built {
	var b Built
	in := &b.Intent
	auto := Auto(f.Model)
	if h.Subsystem != "" {
		*in = Of(h.Subsystem)
	} else {
		in.CostSensitivity = CostSensitivity(who.Tier)
		if auto {
			b.Task = Infer(f)
			b.Task.applyReading(f.Reading, f)
			in.Quality, in.MaxLatency, in.Expected = b.Task.Quality, b.Task.Latency, b.Task.Output
			preset, _ := PresetOf(f.Model)
			preset.apply(in)
			b.inferred = in.Quality
		}
	}
	applyFacts(in, f, auto)
	applyHints(in, h)
	in.DIEM = h.DIEMAvailable && mayUseStake(who)
	applyPrivacy(in, h, rules.Plane)
	applyVitality(in, h, &b.Why)
	barProviders(in, who.Tier, rules.Barred[who.Tier], &b.Why)
	if auto {
		b.preferTierModel(rules)
	}
	return b
}

// applyFacts adds the needs of the request's content. A named model stays a constraint.
func applyFacts(in *policy.Intent, f *Facts, auto bool) {
	if !auto {
		in.Model, in.Provider = f.Model, f.Provider
	}
	in.InputTokens, in.OutputTokens = f.InputTokens, f.OutputTokens
	in.Effort, in.Schema, in.Images, in.Tools = f.Effort, f.Schema, f.Images, f.Tools > 0
	in.Audio, in.Video, in.Documents = f.Audio, f.Video, f.Documents
}

// applyHints applies the hints: features are added, other values replaced.
func applyHints(in *policy.Intent, h *policy.Hints) {
	for _, f := range h.Require {
		addFeature(&in.Require, f)
	}
	for _, f := range h.Prefer {
		addFeature(&in.Prefer, f)
	}
	if h.Quality != policy.QualityUnset {
		in.Quality = h.Quality
	}
	if h.CostSensitivity != nil {
		in.CostSensitivity = *h.CostSensitivity
	}
	if h.MaxLatency > 0 {
		in.MaxLatency = h.MaxLatency
	}
	if h.WebSearch != nil && *h.WebSearch {
		addFeature(&in.Prefer, policy.WebSearch)
	}
	if p := h.Profile; p != nil {
		in.Schema = in.Schema || len(p.Schema) > 0
		if in.Effort == policy.EffortUnset {
			in.Effort = p.Effort
		}
	}
	in.Security = h.SecurityClass
}

// mayUseStake reports whether a client may use the operator's staked credit, which makes requests free: metered keys and golems may, prepaid keys
// of other plans may not.
func mayUseStake(who *policy.Principal) bool { return !who.Prepaid || who.Tier == policy.TierGolem }

// tiers are the tiers of heartbeats by intent.
var tiers = map[string]string{"heartbeat_t1": "T1", "heartbeat_t2": "T2"}

// TierOf returns the tier of a heartbeat, T1 or T2; "" for any other subsystem.
func TierOf(subsystem string) string { return tiers[subsystem] }

// preferTierModel puts the operator's model for a tier first. It applies to the heartbeats themselves and to unknown subsystems. Aliases of the heartbeats
// have their own needs, and do not belong to a tier.
func (b *Built) preferTierModel(rules *Rules) {
	t, ok := tiers[b.Subsystem]
	if model := rules.Tiers[t]; ok && model != "" && parents[b.SubsystemName] == "" {
		b.First = model
		b.Why = append(b.Why, "inference.tiers."+t)
	}
}
