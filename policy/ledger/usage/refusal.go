package usage

import (
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Refusal is a request that was refused before a provider was called: it is counted and has no row.
type Refusal struct {
	RequestID string
	Account   policy.Account // "" without a key
	Reason    string         // the error's code
	Status    int            // HTTP
	Record    []byte         // as Charge.Record; nil if it is not kept
	At        time.Time      // zero means now
}

// Limits of refusals in memory.
const (
	maxRefusalCounts  = 4096 // counters that are not written yet
	maxLatestRefusals = 1024 // refusals with a record, for Request
	maxRefusalRecord  = 4096 // bytes of one record
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

// Refusals counts refused requests until the counters are written, and keeps the latest ones. The zero value is empty. Safe for concurrent use.
type Refusals struct {
	mu         sync.Mutex
	counts     Counts
	latest     []*Refusal // oldest first
	perAccount map[policy.Account]int
}

// Count counts a refusal. Find returns it for a while.
func (s *Refusals) Count(r Refusal) {
	s.add(refusalKey{r.Account, r.At.Unix() / 60, r.Reason, r.Status}, 1)
	s.addLatest(&r)
}

// add counts refusals. Beyond the limit of counters, they are counted as otherRefusals.
func (s *Refusals) add(k refusalKey, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = Counts{}
	}
	if _, ok := s.counts[k]; !ok && len(s.counts) >= maxRefusalCounts {
		k = refusalKey{minute: k.minute / 60 * 60, reason: otherRefusals}
	}
	s.counts[k] += n
}

// addLatest keeps a refusal, if there is no space in place of an older one.
func (s *Refusals) addLatest(r *Refusal) {
	if r.Record == nil || len(r.Record) > maxRefusalRecord {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perAccount == nil {
		s.perAccount = map[policy.Account]int{}
	}
	if len(s.latest) >= maxLatestRefusals {
		s.drop(r.Account)
	}
	s.latest = append(s.latest, r)
	s.perAccount[r.Account]++
}

// drop removes the oldest refusal: that of the account if it has its share or more, so that a caller with thousands of refusals a second does not displace those
// of others.
func (s *Refusals) drop(account policy.Account) {
	i := 0
	if s.perAccount[account]*len(s.perAccount) >= maxLatestRefusals {
		i = slices.IndexFunc(s.latest, func(r *Refusal) bool { return r.Account == account })
	}
	of := s.latest[i].Account
	if s.perAccount[of]--; s.perAccount[of] == 0 {
		delete(s.perAccount, of)
	}
	s.latest = slices.Delete(s.latest, i, i+1)
}

// Find finds one of the latest refusals of any account.
func (s *Refusals) Find(id string) (Request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.latest {
		if r.RequestID == id {
			return Request{Charge: chargelog.Charge{RequestID: id, Account: r.Account, Status: r.Reason, Record: r.Record, At: r.At}}, true
		}
	}
	return Request{}, false
}

// Counts are counters that are not in the store yet.
type Counts map[refusalKey]int64

// Take returns the counters and resets them.
func (s *Refusals) Take() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = nil
	return counts
}

// PutBack adds counters that could not be written.
func (s *Refusals) PutBack(c Counts) {
	for k, n := range c {
		s.add(k, n)
	}
}

// AddRefusals adds counters to the stored ones, and to the sums of the transaction. It may run again after a rollback.
func (t *Tally) AddRefusals(b *store.Book, c Counts) error {
	for k, n := range c {
		if _, err := b.Exec(`INSERT INTO refusal (account, minute, reason, status, requests) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (account, minute, reason, status) DO UPDATE SET requests = refusal.requests + excluded.requests`, k.account, k.minute, k.reason, k.status, n); err != nil {
			return err
		}
	}
	for k, n := range c {
		t.sums.refuse(k.account, k.minute/(24*60), n)
	}
	return nil
}

// PruneRefusals removes up to PruneLimit counters from before a time, and returns how many.
func PruneRefusals(b *store.Book, before time.Time) (int64, error) {
	return b.Exec(`DELETE FROM refusal WHERE (account, minute, reason, status) IN
	(SELECT account, minute, reason, status FROM refusal WHERE minute < ? LIMIT ?)`, before.Unix()/60, PruneLimit)
}
