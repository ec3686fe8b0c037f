package resolve

import (
	"math"
	"time"

	"bardo.money/gateway/policy"
)

// need is an intent, made ready to be compared with many options.
type need struct {
	*policy.Intent
	require, prefer set
	relaxed         time.Duration // bound of the relaxed pass; 0: none
	named           bool          // the request names its model: nothing but privacy and price may refuse it
	zero            bool          // only a model that costs nothing will do
	private         bool          // only a provider that retains nothing will do, in any pass
	besides         bool          // a family may not serve it
	sealed          bool          // what the privacy tier asks of a model is never relaxed
	enclave         set           // what it asks
	tier            set           // the same, as long as the strict pass asks for it
	reasons         bool          // the effort wants a model that reasons
	content         set           // what a model must take that serves the request
	room            room          // for thoughts in the answer

	always, strictly bounds // the same, for what many options are compared with at once
}

// bounds are what an option must have, in few comparisons.
type bounds struct {
	has           set
	latency       time.Duration
	input, output int64
	quality       policy.Quality
}

// unthinking is the part of an agent that runs on rules: it never pays for a model.
const unthinking = "heartbeat_t0"

func newNeed(in *policy.Intent, rules Rules) need {
	n := need{
		Intent: in, require: setOf(in.Require...), prefer: setOf(in.Prefer...), relaxed: double(in.MaxLatency),
		named: in.Model != "", zero: in.Subsystem == unthinking,
		private: in.Security == policy.SecurityPrivate, besides: in.Besides != "", reasons: in.Effort >= policy.EffortHigh,
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

// bound writes down what never and strict ask of an option when the request names no model.
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

// orAny is a bound of time; none is the most that there is.
func orAny(d time.Duration) time.Duration {
	if d <= 0 {
		return math.MaxInt64
	}
	return d
}

// double is a bound for the relaxed pass. It saturates.
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

// lack is what keeps an option from serving a request: the first of them that holds. Zero: nothing does.
type lack uint8

const (
	lacksNothing lack = iota
	// No pass takes an option with one of these.
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
	// The relaxed pass takes one with these.
	relaxable
	lacksTier
	lacksFeature
	lacksReasoning
	lacksSchema
	lacksQuality
	lacksOutput
	lacksPace
)

// never is why no pass takes an option.
func (n *need) never(c *chair, o *option) lack {
	switch {
	case n.zero && !o.has.has(isFree):
		return lacksPrice
	case n.besides && o.at.kin() == n.Besides:
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
	if l := n.unfit(o); l != lacksNothing {
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

// unfit is why a model could not take the request at all, as far as is known.
func (n *need) unfit(o *option) lack {
	switch {
	case n.Tools && !o.has.has(mayTools):
		return lacksTools
	case n.tokens(o) > o.context:
		return lacksWindow
	}
	return lacksNothing
}

// contents are the kinds of content that not all models take: the fact about an option, what it lacks without that, and their name.
var contents = [...]struct {
	may  set
	lack lack
	name string
}{
	{maySee, lacksVision, "images"}, {mayHear, lacksAudio, "audio"}, {mayWatch, lacksVideo, "video"}, {mayRead, lacksDocuments, "documents"},
}

// contentOf is what a model must take to serve a request.
func contentOf(in *policy.Intent) (s set) {
	for i, holds := range [...]bool{in.Images, in.Audio, in.Video, in.Documents} {
		if holds {
			s |= contents[i].may
		}
	}
	return s
}

// lackOf is what an option lacks that does not take some content.
func lackOf(missing set) lack {
	for i := range contents {
		if missing&contents[i].may != 0 {
			return contents[i].lack
		}
	}
	return lacksNothing
}

// estimate is what the request may cost at most, without any cache.
func (n *need) estimate(o *option) policy.Pico {
	return worstAt(&o.at.resolution, n.InputTokens, n.OutputTokens, 1)
}

// tokens are those that have to fit into a model's window. They saturate.
func (n *need) tokens(o *option) int64 {
	input, output := max(n.InputTokens, 0), min(max(n.OutputTokens, 0), o.output)
	if input > math.MaxInt64-output {
		return math.MaxInt64
	}
	return input + output
}

// strict is why the strict pass does not take an option that the relaxed one takes.
func (n *need) strict(o *option) lack {
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
		return n.unfit(o)
	case o.quality < n.Quality:
		return lacksQuality
	}
	return lacksNothing
}

// degraded appends what was asked for and is not there: required features first, then preferred ones, each once.
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
		to = append(to, privacyTier)
	}
	return to
}

// lacking is how many names degraded appends.
func (n *need) lacking(has set) int {
	count := ((n.require | n.prefer) &^ has).count()
	if !has.has(n.enclave) {
		count++
	}
	return count
}

// privacyTier is how it is named that a task of an enclave was served without one (D-12).
const privacyTier = "privacy_tier"
