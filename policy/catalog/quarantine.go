package catalog

import (
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
)

// QuarantineTime is how long a provider is tried last for a model that it reported as missing.
const QuarantineTime = 10 * time.Minute

// maxQuarantined limits how many models are quarantined. Further ones are ignored until others are released.
const maxQuarantined = 1024

// Quarantine holds models that a provider lists but reports as missing. The zero value is empty. Safe for concurrent use; while it is empty, a check
// costs one atomic load.
type Quarantine struct {
	n    atomic.Int64
	mu   sync.RWMutex
	held map[place]time.Time
}

// place is a model at a provider, by the provider's name for it.
type place struct {
	provider policy.ProviderID
	upstream string
}

// Hold quarantines a model. ok is false if it already is, or if there is no room.
func (q *Quarantine) Hold(now time.Time, p policy.ProviderID, upstream string) (until time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, until := range q.held {
		if !now.Before(until) {
			delete(q.held, at)
		}
	}
	at := place{p, upstream}
	if _, in := q.held[at]; !in && len(q.held) < maxQuarantined {
		if q.held == nil {
			q.held = map[place]time.Time{}
		}
		until, ok = now.Add(QuarantineTime), true
		q.held[at] = until
	}
	q.n.Store(int64(len(q.held)))
	return until, ok
}

// Empty reports whether nothing is quarantined. Entries may have expired when it returns false.
func (q *Quarantine) Empty() bool { return q.n.Load() == 0 }

// Until returns when a model is released, the zero time if it is not quarantined.
func (q *Quarantine) Until(now time.Time, p policy.ProviderID, upstream string) time.Time {
	if q.Empty() {
		return time.Time{}
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if until := q.held[place{p, upstream}]; now.Before(until) {
		return until
	}
	return time.Time{}
}
