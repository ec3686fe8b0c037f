package meter

import (
	"sync/atomic"

	"bardo.money/gateway/policy"
)

// Providers' tokenizers are not known. Requests are estimated from the bytes of their text, and a model's estimates are corrected by its provider's
// counts of earlier requests: an average in which the latest count has a weight of one tenth. The correction is used for display, and where a larger
// estimate is safer: it never makes a reservation smaller.

// A model's correction, in thousandths of the estimate.
const (
	plain        = 1000
	leastFactor  = plain / 2
	mostFactor   = 2 * plain
	newestCount  = 10  // the latest count has a weight of 1/10
	minEstimated = 256 // minimum number of tokens of a request that counts: in shorter ones, providers' additions weigh too much
)

// factor is a model's correction. Safe for concurrent use.
type factor struct {
	value atomic.Int64 // in thousandths; 0: no count yet
	seen  atomic.Int64
}

// LearnTokens records a provider's count of a text-only request that was estimated.
func (m *Meter) LearnTokens(model policy.ModelID, estimated, counted int64) {
	if estimated < minEstimated || counted <= 0 {
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

// minCounts is the number of counts from which a correction is used.
const minCounts = 5

// Corrected returns an estimate corrected by the provider's counts of earlier requests; the estimate itself if there are too few.
func (m *Meter) Corrected(model policy.ModelID, estimated int64) int64 {
	f, ok := m.factors.Get(model)
	if !ok || f.seen.Load() < minCounts {
		return estimated
	}
	return policy.TimesTokens(estimated, f.value.Load()) / plain
}

// AtLeast is Corrected, but never below the uncorrected estimate, for reservations.
func (m *Meter) AtLeast(model policy.ModelID, estimated int64) int64 {
	return max(estimated, m.Corrected(model, estimated))
}
