package intent

import "bardo.money/gateway/policy"

// Reading is what a classifier says of a prompt: what it is about, what is to be done, and how difficult it is. The zero value says nothing.
type Reading struct {
	Domain       string  `json:"domain"`
	DomainMargin float64 `json:"domain_margin"` // how far the next domain is behind: a small one says little
	Intent       string  `json:"intent"`
	IntentMargin float64 `json:"intent_margin"`
	Level        float64 `json:"level"` // of difficulty: 0 trivial, 1 easy, 2 medium, 3 hard

	Injection *float64 `json:"injection,omitempty"` // how probable it is that it holds instructions that it should not hold, 0 to 1; nil: that was not judged
	Unsafe    bool     `json:"unsafe,omitempty"`    // that is at least the threshold of layer l8
}

// sureMargin is the margin from which on a name is probably right.
const sureMargin = 0.25

// SureOfDomain reports whether the domain may be relied on.
func (r *Reading) SureOfDomain() bool { return r.DomainMargin >= sureMargin }

// SureOfIntent reports whether the intent may be relied on.
func (r *Reading) SureOfIntent() bool { return r.IntentMargin >= sureMargin }

// The levels from which on the rules are overruled, where they say the contrary. Between them the classifier is not sure enough. A model that is stronger than
// needed costs money each time, so more is asked for than for a weaker one.
const (
	surelyEasy   = 1.3 // at most
	surelyMedium = 2.0
	surelyHard   = 2.6
)

// consider has a reading change the needed quality, where it is sure that the rules are wrong: what they find difficult is easy, or the other way round. What the request asks for
// openly counts more than any reading. A prompt that seems to hold injected instructions is never given to a weaker model, which follows them sooner.
func (t *Task) consider(r *Reading, f *Facts) {
	if r == nil || f.Effort != policy.EffortUnset || f.Tools > 0 || f.Images || f.Schema {
		return
	}
	switch {
	case r.Level <= surelyEasy && !r.Unsafe && t.Quality >= policy.QualityHigh:
		t.Quality, t.Reconsidered = t.Quality-1, "easier"
	case r.Level >= surelyHard && t.Quality <= policy.QualityMedium:
		t.Quality, t.Reconsidered = policy.QualityHigh, "more difficult"
	case r.Level >= surelyMedium && t.Quality <= policy.QualityLow:
		t.Quality, t.Reconsidered = policy.QualityMedium, "more difficult"
	}
}
