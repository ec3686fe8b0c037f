package intent

import (
	"strings"

	"bardo.money/gateway/policy"
)

// Facts are what a request is, apart from what it says about its caller.
type Facts struct {
	Model    string            // as the client wrote it
	Provider policy.ProviderID // that the model's id forced, or ""

	InputTokens  int64 // estimate
	OutputTokens int64 // the most that may come
	MaxTokens    int   // what the client says of it, 0 for nothing
	Effort       policy.Effort
	Schema       bool // the answer must follow a schema
	Images       bool
	Audio, Video bool
	Documents    bool // files that are no text
	Tools        int

	// For what Infer reads; only needed where the model is left to the gateway.
	SystemBytes int
	Text        string            // the newest user text
	Earlier     [ReadTurns]string // some of the earlier ones: the first and the last before it
}

// Rules are what the operator says about every intent. The zero value says nothing.
type Rules struct {
	Tiers  map[string]string                   // the models of the tiers T1 and T2, as "provider/model" or an id alone
	Barred map[policy.Tier][]policy.ProviderID // whom the plans of keys do not include; a section, as direct, stands for all of its own

	Pipeline string // how much context engineering a request gets that nothing else speaks of; "" means standard
}

// Built is an intent, and what was changed about it that its caller did not ask for.
type Built struct {
	policy.Intent
	Task Task     // what the request seemed to be about; without a name where that was not looked at
	Why  []string // for people, a short sentence each

	inferred policy.Quality
}

// Preset is what a name that leaves the choice to the gateway says besides.
type Preset uint8

// The presets.
const (
	Balanced Preset = iota
	Cheap           // cost before quality: one class of quality less than seems to be needed
	Best            // quality before cost: one class more, at least high
)

// Auto tells whether a model's name leaves the choice to the gateway.
func Auto(model string) bool {
	_, ok := PresetOf(model)
	return ok
}

// PresetOf reads a name that leaves the choice to the gateway; ok is false for any other.
func PresetOf(model string) (p Preset, ok bool) {
	name := strings.TrimPrefix(strings.ToLower(model), "bardo/")
	switch name {
	case "", "auto", "bardo":
		return Balanced, model == "" || name != "" // "bardo/" is none
	case "auto:cheap":
		return Cheap, true
	case "auto:best":
		return Best, true
	}
	return Balanced, false
}

// apply is the preset on the inferred needs.
func (p Preset) apply(in *policy.Intent) {
	switch p {
	case Cheap:
		in.Quality, in.CostSensitivity = in.Quality.Downgrade(), 1
	case Best:
		in.Quality, in.CostSensitivity = min(max(in.Quality+1, policy.QualityHigh), policy.QualityMaximum), 0
	case Balanced:
	}
}

// Stay keeps a conversation where it has been served, for which it needs at least what it needed there. A quality that its caller asks for
// stands over that.
func (b *Built) Stay(at policy.Kept) {
	if b.Kept = at; b.Quality == b.inferred {
		b.Quality = max(b.Quality, at.Quality)
	}
}

// Build says what a request needs: the static intent of the part of an agent that asks, the caller's hints over it, what an agent's
// life and a key's plan still allow, and what the request itself holds. A caller without hints that leaves the model to the gateway gets
// what its task seems to need. It is pure; the intent's lists may be shared, so they are only to be appended to as copies.
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
			in.Quality, in.MaxLatency, in.Expected = b.Task.Quality, b.Task.Latency, b.Task.Output
			preset, _ := PresetOf(f.Model)
			preset.apply(in)
			b.inferred = in.Quality
		}
	}
	hold(in, f, auto)
	heed(in, h)
	in.DIEM = h.DIEMAvailable && mayUseStake(who)
	protect(in, h)
	mortal(in, h, &b.Why)
	restrict(in, who.Tier, rules.Barred[who.Tier], &b.Why)
	if auto {
		b.choose(rules)
	}
	return b
}

// hold puts what the request itself says into the intent. A model that is named stays a constraint.
func hold(in *policy.Intent, f *Facts, auto bool) {
	if !auto {
		in.Model, in.Provider = f.Model, f.Provider
	}
	in.InputTokens, in.OutputTokens = f.InputTokens, f.OutputTokens
	in.Effort, in.Schema, in.Images, in.Tools = f.Effort, f.Schema, f.Images, f.Tools > 0
	in.Audio, in.Video, in.Documents = f.Audio, f.Video, f.Documents
}

// heed puts the hints over the static intent. Features are added to it; the rest takes its place.
func heed(in *policy.Intent, h *policy.Hints) {
	for _, f := range h.Require {
		want(&in.Require, f)
	}
	for _, f := range h.Prefer {
		want(&in.Prefer, f)
	}
	if h.Quality != policy.QualityUnsaid {
		in.Quality = h.Quality
	}
	if h.CostSensitivity != nil {
		in.CostSensitivity = *h.CostSensitivity
	}
	if h.MaxLatency > 0 {
		in.MaxLatency = h.MaxLatency
	}
	if h.WebSearch != nil && *h.WebSearch {
		want(&in.Prefer, policy.WebSearch)
	}
	if p := h.Profile; p != nil {
		in.Schema = in.Schema || len(p.Schema) > 0
		if in.Effort == policy.EffortUnsaid {
			in.Effort = p.Effort
		}
	}
	in.Security = h.SecurityClass
}

// mayUseStake reports whether a caller may say that staked credit is there: it is the operator's, and what it pays for costs its caller
// nothing. The operator's own keys and agents may; customers who prepay on another plan may not.
func mayUseStake(who *policy.Principal) bool { return !who.Prepaid || who.Tier == policy.TierGolem }

// tiers are the names of the heartbeats' tiers.
var tiers = map[string]string{"heartbeat_t1": "T1", "heartbeat_t2": "T2"}

// choose puts the operator's model for a tier first. It is for heartbeats themselves, and for parts that nobody has described: those with
// a name of their own that share the intent have needs of their own, and are not of a tier.
func (b *Built) choose(rules *Rules) {
	t, ok := tiers[b.Subsystem]
	if model := rules.Tiers[t]; ok && model != "" && roots[b.Asked] == "" {
		b.First = model
		b.Why = append(b.Why, "inference.tiers."+t)
	}
}
