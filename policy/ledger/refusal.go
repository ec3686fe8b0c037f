package ledger

import (
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// Refusal is a request that was refused before a provider was called: it is only counted and has no row.
type Refusal struct {
	RequestID string
	Account   policy.Account // "" without a key
	Reason    string         // the error's code
	Status    int            // HTTP
	Record    []byte         // as Charge.Record; nil if it is not to be stored
	At        time.Time      // zero means now
}

// Limits of refusals in memory.
const (
	refusalCounts = 4096 // counters that are not written yet
	refusalRing   = 1024 // latest refusals, for Request
	refusalRecord = 4096 // bytes of one record
)

// otherRefusals is the reason of refusals beyond the limit of counters.
const otherRefusals = "other"

// refusalKey is the key of a counter.
type refusalKey struct {
	account policy.Account
	minute  int64
	reason  string
	status  int
}

// refusals counts refused requests until the counters are written, and has the latest ones. The zero value is empty.
type refusals struct {
	mu     sync.Mutex
	counts map[refusalKey]int64
	ring   []Refusal
	next   int // next index in ring
}

// Refuse counts a refusal. It is written within seconds; Request returns it for a while.
func (l *Ledger) Refuse(r Refusal) {
	if r.At.IsZero() {
		r.At = l.o.Now()
	}
	l.refused.add(refusalKey{r.Account, r.At.Unix() / 60, r.Reason, r.Status}, 1)
	l.refused.addRecent(r)
}

// add counts refusals. Beyond the limit of counters, they are counted as otherRefusals.
func (s *refusals) add(k refusalKey, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[refusalKey]int64{}
	}
	if _, ok := s.counts[k]; !ok && len(s.counts) >= refusalCounts {
		k = refusalKey{minute: k.minute / 60 * 60, reason: otherRefusals}
	}
	s.counts[k] += n
}

// addRecent stores a refusal in place of the oldest one.
func (s *refusals) addRecent(r Refusal) {
	if r.Record == nil || len(r.Record) > refusalRecord {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < refusalRing {
		s.ring = append(s.ring, r)
		return
	}
	s.ring[s.next] = r
	s.next = (s.next + 1) % refusalRing
}

// findAny finds one of the latest refusals of any account.
func (s *refusals) findAny(id string) (Request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ring {
		if r := &s.ring[i]; r.RequestID == id {
			return Request{Charge: Charge{RequestID: id, Account: r.Account, Status: r.Reason, Record: r.Record, At: r.At}}, true
		}
	}
	return Request{}, false
}

// take returns the counters and resets them.
func (s *refusals) take() map[refusalKey]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = nil
	return counts
}

// writeRefusals writes the counters, or keeps them after an error.
func (l *Ledger) writeRefusals() {
	if l.writer.backlog.storeFailure() != nil {
		return
	}
	counts := l.refused.take()
	if len(counts) == 0 {
		return
	}
	err := l.writer.do(func(b *book) error { return b.addRefusals(counts) }, nil)
	if err == nil {
		return
	}
	for k, n := range counts {
		l.refused.add(k, n)
	}
	if !isUnwritable(err) {
		l.o.Log.Error("ledger: refusals were not written", "error", err)
	}
}

// addRefusals adds to the stored counters. It may run twice.
func (b *book) addRefusals(counts map[refusalKey]int64) error {
	for k, n := range counts {
		if _, err := b.exec(`INSERT INTO refusal (account, minute, reason, status, requests) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (account, minute, reason, status) DO UPDATE SET requests = refusal.requests + excluded.requests`, k.account, k.minute, k.reason, k.status, n); err != nil {
			return err
		}
	}
	for k, n := range counts {
		b.sums.refuse(k.account, k.minute/(24*60), n)
	}
	return nil
}

// pruneRefusals removes counters from before a time.
func (b *book) pruneRefusals(before time.Time) (int64, error) {
	return b.exec(`DELETE FROM refusal WHERE (account, minute, reason, status) IN
	(SELECT account, minute, reason, status FROM refusal WHERE minute < ? LIMIT ?)`, before.Unix()/60, pruneLimit)
}
