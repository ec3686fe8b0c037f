package catalog

import (
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
)

// QuarantineTime is for how long a provider is asked last for a model that it said it does not have.
const QuarantineTime = 10 * time.Minute

// maxQuarantined bounds how many models are held. Beyond it, none is taken in until others are free.
const maxQuarantined = 1024

// Quarantine holds models that a provider lists and says that it does not have. The zero value is empty. Safe for concurrent use; while
// it is empty, asking costs a look at one word.
type Quarantine struct {
	n    atomic.Int64
	mu   sync.RWMutex
	held map[place]time.Time
}

// place is a model at a provider, by the provider's own name for it.
type place struct {
	provider policy.ProviderID
	upstream string
}

// Hold takes a model in. ok is false if it is in already, or if there is no room.
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

// Empty tells that nothing is held. What it tells of more may be over.
func (q *Quarantine) Empty() bool { return q.n.Load() == 0 }

// Until is when a model is free again, the zero time if it is.
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
