package intent

import "bardo.money/gateway/policy"

// Reading is a classifier's result for a prompt: its domain, intent and difficulty. The zero value has no result.
type Reading struct {
	Domain       string  `json:"domain"`
	DomainMargin float64 `json:"domain_margin"` // margin to the next domain: a small one means little confidence
	Intent       string  `json:"intent"`
	IntentMargin float64 `json:"intent_margin"`
	Level        float64 `json:"level"` // difficulty: 0 trivial, 1 easy, 2 medium, 3 hard

	Injection *float64 `json:"injection,omitempty"` // probability that it contains injected instructions, 0 to 1; nil: not classified
	Unsafe    bool     `json:"unsafe,omitempty"`    // Injection is at least the threshold of layer l8
}

// sureMargin is the margin from which a name is probably right.
const sureMargin = 0.25

// SureOfDomain reports whether the domain may be relied on.
func (r *Reading) SureOfDomain() bool { return r.DomainMargin >= sureMargin }

// SureOfIntent reports whether the intent may be relied on.
func (r *Reading) SureOfIntent() bool { return r.IntentMargin >= sureMargin }

// The levels at which the classifier overrides contrary rules. In between it is not confident enough. An unnecessarily strong model costs money each
// time, so choosing one needs more confidence than choosing a weaker one.
const (
	surelyEasy   = 1.3 // at most
	surelyMedium = 2.0
	surelyHard   = 2.6
)

// applyReading lets a confident reading change the needed quality: a task that the rules rate as difficult may be easy, or the reverse. Explicit
// properties of the request override any reading. A prompt that may contain injected instructions is never given to a weaker model, which is more
// likely to follow them.
func (t *Task) applyReading(r *Reading, f *Facts) {
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
