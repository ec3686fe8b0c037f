package resolve

import (
	"math"
	"time"

	"bardo.money/gateway/policy"
)

// need is an intent in a form that is compared quickly with many options.
type need struct {
	*policy.Intent
	require, prefer set
	relaxed         time.Duration // latency bound of the relaxed pass; 0 means none
	named           bool          // the request names its model: only privacy and price may exclude it
	zero            bool          // only free models
	private         bool          // only providers that retain nothing, in both passes
	excludesFamily  bool          // a model family is excluded
	sealed          bool          // the privacy tier's features are never relaxed
	enclave         set           // features that the privacy tier asks for
	tier            set           // the same, while the strict pass requires them
	reasons         bool          // the effort requires a model that reasons
	content         set           // content that a model must support
	room            room          // room for reasoning in the answer

	always, strictly bounds // the same as bounds
}

// bounds are the requirements of an option, in few comparisons.
type bounds struct {
	has           set
	latency       time.Duration
	input, output int64
	quality       policy.Quality
}

// rulesOnly is the subsystem that runs on rules: it is only served by free models.
const rulesOnly = "heartbeat_t0"

func newNeed(in *policy.Intent, rules Rules) need {
	n := need{
		Intent: in, require: setOf(in.Require...), prefer: setOf(in.Prefer...), relaxed: double(in.MaxLatency),
		named: in.Model != "", zero: in.Subsystem == rulesOnly,
		private: in.Security == policy.SecurityPrivate, excludesFamily: in.ExcludedFamily != "", reasons: in.Effort >= policy.EffortHigh,
	}
	switch {
	case in.PrivacyTier == policy.PrivacyEndToEnd || n.require.has(hasSeal):
		n.enclave, n.sealed = hasSeal, rules.Exhausted != ContinueE2E
		n.private = n.private || n.sealed
	case in.PrivacyTier == policy.PrivacyTEE || n.require.has(hasEnclave):
		n.enclave, n.sealed = hasEnclave, rules.Exhausted == Fail
	}
	n.tier, n.content, n.room = n.enclave, contentOf(in), n.roomOf()
	n.bound()
	return n
}

// bound computes the bounds of excluded and strictLack for a request that names no model.
func (n *need) bound() {
	n.always = bounds{has: n.content, latency: orAny(n.relaxed), input: max(n.InputTokens, 0), output: max(n.OutputTokens, 0)}
	n.strictly = bounds{has: n.require | n.tier, latency: orAny(n.MaxLatency), output: n.OutputTokens, quality: n.Quality}
	for _, one := range [...]struct {
		asked bool
		of    *bounds
		has   set
	}{
		{n.zero, &n.always, isFree},
		{n.private, &n.always, hasPrivacy},
		{n.sealed, &n.always, n.enclave},
		{n.Tools, &n.always, mayTools},
		{n.reasons, &n.strictly, reasons},
		{n.Schema, &n.strictly, maySchema},
	} {
		if one.asked {
			one.of.has |= one.has
		}
	}
}

// orAny returns a time bound; zero becomes the maximum.
func orAny(d time.Duration) time.Duration {
	if d <= 0 {
		return math.MaxInt64
	}
	return d
}

// double is the relaxed bound. It saturates.
func double(d time.Duration) time.Duration {
	if d > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return 2 * d
}

var (
	hasPrivacy = setOf(policy.Privacy)
	hasNoLog   = setOf(policy.NoLog)
	hasEnclave = setOf(policy.TEEAttested)
	hasSeal    = setOf(policy.EndToEndEncryption)
	hasVision  = setOf(policy.Vision)
	hasTools   = setOf(policy.Tools)
	hasSchema  = setOf(policy.StructuredOutputs)
	hasPrivate = hasPrivacy | hasNoLog
)

// lack is the first reason why an option cannot serve a request; zero if there is none.
type lack uint8

const (
	lacksNothing lack = iota
	// These exclude an option in both passes.
	lacksPrice
	lacksDistance
	lacksBudget
	lacksNative
	lacksPrivacy
	lacksEnclave
	lacksVision
	lacksAudio
	lacksVideo
	lacksDocuments
	lacksTools
	lacksWindow
	lacksSpeed
	lacksRoom
	// These exclude it in the strict pass only.
	relaxable
	lacksTier
	lacksFeature
	lacksReasoning
	lacksSchema
	lacksQuality
	lacksOutput
	lacksPace
)

// excluded returns why an option is excluded in both passes.
func (n *need) excluded(c *candidate, o *option) lack {
	switch {
	case n.zero && !o.has.has(isFree):
		return lacksPrice
	case n.excludesFamily && o.at.family() == n.ExcludedFamily:
		return lacksDistance
	case c.ceiling > 0 && n.estimate(o) > c.ceiling:
		return lacksBudget
	case c.must != 0 && o.has&c.must == 0:
		return lacksNative
	case n.private && !c.p.Private:
		return lacksPrivacy
	case n.sealed && !o.has.has(n.enclave):
		return lacksEnclave
	case !o.has.has(n.content):
		return lackOf(n.content &^ o.has)
	case n.named:
		return lacksNothing
	}
	if l := n.unsupported(o); l != lacksNothing {
		return l
	}
	if n.relaxed > 0 && o.latency > n.relaxed {
		return lacksSpeed
	}
	if n.room > roomForAll && n.room.tooLittle(o.rate.thinks) {
		return lacksRoom
	}
	return lacksNothing
}

// unsupported returns why a model could not process the request.
func (n *need) unsupported(o *option) lack {
	switch {
	case n.Tools && !o.has.has(mayTools):
		return lacksTools
	case n.tokens(o) > o.context:
		return lacksWindow
	}
	return lacksNothing
}

// contents are the kinds of content that not all models support: the option's bit, the lack without it, and the name.
var contents = [...]struct {
	may  set
	lack lack
	name string
}{
	{mayVision, lacksVision, "images"}, {mayAudio, lacksAudio, "audio"}, {mayVideo, lacksVideo, "video"}, {mayDocuments, lacksDocuments, "documents"},
}

// contentOf returns the content that a model must support.
func contentOf(in *policy.Intent) (s set) {
	for i, holds := range [...]bool{in.Images, in.Audio, in.Video, in.Documents} {
		if holds {
			s |= contents[i].may
		}
	}
	return s
}

// lackOf returns the lack for unsupported content.
func lackOf(missing set) lack {
	for i := range contents {
		if missing&contents[i].may != 0 {
			return contents[i].lack
		}
	}
	return lacksNothing
}

// estimate returns the highest possible cost of the request, without a cache.
func (n *need) estimate(o *option) policy.Pico {
	return worstAt(&o.at.resolution, n.InputTokens, n.OutputTokens, 1)
}

// tokens returns the number that must fit into the context window. It saturates.
func (n *need) tokens(o *option) int64 {
	input, output := max(n.InputTokens, 0), min(max(n.OutputTokens, 0), o.output)
	if input > math.MaxInt64-output {
		return math.MaxInt64
	}
	return input + output
}

// strictLack returns why an option is excluded in the strict pass only.
func (n *need) strictLack(o *option) lack {
	switch {
	case !o.has.has(n.tier):
		return lacksTier
	case !o.has.has(n.require):
		return lacksFeature
	case n.reasons && !o.has.has(reasons):
		return lacksReasoning
	case n.Schema && !o.has.has(maySchema):
		return lacksSchema
	case n.MaxLatency > 0 && o.latency > n.MaxLatency:
		return lacksPace
	case n.OutputTokens > o.output:
		return lacksOutput
	case n.named:
		return n.unsupported(o)
	case o.quality < n.Quality:
		return lacksQuality
	}
	return lacksNothing
}

// degraded appends the requested features that are missing: required ones first, then preferred ones, without duplicates.
func (n *need) degraded(to []string, has set) []string {
	missing := (n.require | n.prefer) &^ has
	for _, list := range [2][]policy.Feature{n.Require, n.Prefer} {
		for _, f := range list {
			if b := bitOf[f]; missing&b != 0 {
				to, missing = append(to, string(f)), missing&^b
			}
		}
	}
	if !has.has(n.enclave) {
		to = append(to, PrivacyTier)
	}
	return to
}

// lacking returns the number of names that degraded appends.
func (n *need) lacking(has set) int {
	count := ((n.require | n.prefer) &^ has).count()
	if !has.has(n.enclave) {
		count++
	}
	return count
}

// PrivacyTier is the degraded name for a task that needs an enclave and was served without one (D-12).
const PrivacyTier = "privacy_tier"
