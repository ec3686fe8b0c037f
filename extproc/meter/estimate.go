package meter

import (
	"sync/atomic"

	"bardo.money/gateway/policy"
)

// Providers' tokenizers are not known. Requests are estimated by the bytes of their text, and the estimates of a model corrected by what its provider
// counted of earlier requests: an average in which the latest count weighs a tenth. The correction is for showing, and where a larger estimate is the safe
// one: a reservation never becomes smaller by it.

// The correction of a model, in thousandths of the estimate.
const (
	plain          = 1000
	leastFactor    = plain / 2
	mostFactor     = 2 * plain
	newestCount    = 10  // the share of the latest count is one in so many
	leastEstimated = 256 // tokens of a request that the average counts: in shorter ones, what providers add weighs too much
)

// factor is a model's correction. Safe for concurrent use.
type factor struct {
	value atomic.Int64 // in thousandths; 0: there was no count
	seen  atomic.Int64
}

// LearnTokens notes what a provider counted of a request of text alone that was estimated.
func (m *Meter) LearnTokens(model policy.ModelID, estimated, counted int64) {
	if estimated < leastEstimated || counted <= 0 {
		return
	}
	now := min(max(policy.TimesTokens(counted, plain)/estimated, leastFactor), mostFactor)
	f, ok := m.factors.Get(model)
	if !ok {
		f = &factor{}
		if other, ok, _ := m.factors.PeekOrAdd(model, f); ok {
			f = other
		}
	}
	f.seen.Add(1)
	for {
		before := f.value.Load()
		next := now
		if before > 0 {
			next = ((newestCount-1)*before + now + newestCount/2) / newestCount
		}
		if f.value.CompareAndSwap(before, next) {
			return
		}
	}
}

// leastCounts is how many counts a correction takes to be used.
const leastCounts = 5

// Corrected is an estimate for a model by what its provider counted of earlier requests; the estimate itself where too little is known.
func (m *Meter) Corrected(model policy.ModelID, estimated int64) int64 {
	f, ok := m.factors.Get(model)
	if !ok || f.seen.Load() < leastCounts {
		return estimated
	}
	return policy.TimesTokens(estimated, f.value.Load()) / plain
}

// AtLeast is an estimate for a model that is never below the one without a correction, for what is set aside.
func (m *Meter) AtLeast(model policy.ModelID, estimated int64) int64 {
	return max(estimated, m.Corrected(model, estimated))
}
