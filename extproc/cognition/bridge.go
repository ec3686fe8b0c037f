package cognition

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Limits of what is kept in memory.
const (
	MaxRecords   = 500 // per account, and as many events
	maxAccounts  = 64
	maxFollowers = 256
	maxOfOne     = 16 // followers of one account
)

// Key is the state of the provider's keys.
type Key string

// The states.
const (
	Active   Key = "active"
	Rotating Key = "rotating"
	Expired  Key = "expired" // the provider refused the last one
)

// Bridge stores records and events, and notifies followers. A nil bridge stores nothing. Safe for concurrent use.
type Bridge struct {
	boot string // distinguishes the ids of its events from those of an earlier process

	mu        sync.Mutex
	accounts  map[policy.Account]*plane
	key       Key
	followers int
}

// plane is the state of one account.
type plane struct {
	records   []Record // oldest first
	events    []event  // oldest first
	next      int64    // number of the next event
	cost      policy.Micro
	spent     map[string]Spending
	day       string
	used      time.Time
	followers map[*Follower]struct{}
}

// event is an emitted event.
type event struct {
	number int64
	name   string
	data   []byte
}

// NewBridge makes an empty bridge.
func NewBridge() *Bridge {
	return &Bridge{boot: rand.Text()[:8], accounts: map[policy.Account]*plane{}, key: Active}
}

// plane returns the state of an account. The lock is held.
func (b *Bridge) plane(a policy.Account) *plane {
	p, ok := b.accounts[a]
	if !ok {
		if len(b.accounts) >= maxAccounts {
			b.forgetOldest()
		}
		p = &plane{spent: map[string]Spending{}, followers: map[*Follower]struct{}{}}
		b.accounts[a] = p
	}
	p.used = time.Now()
	return p
}

// forgetOldest makes room for another account.
func (b *Bridge) forgetOldest() {
	var oldest policy.Account
	var found *plane
	for a, p := range b.accounts {
		if len(p.followers) == 0 && (found == nil || p.used.Before(found.used)) {
			oldest, found = a, p
		}
	}
	if found != nil {
		delete(b.accounts, oldest)
	}
}

// Add records a call and emits its events. limit is the agent's daily budget for dreams; nil for none.
func (b *Bridge) Add(a policy.Account, r *Record, limit *policy.Micro) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.plane(a)
	p.records = appendRing(p.records, *r)
	p.cost = p.cost.Plus(r.Cost)
	b.key = Active
	p.emit("cognition", r.event(false))
	if isDream(r.Class) {
		p.spend(r, limit)
	}
}

// spend adds a call's cost to its phase's spending of the day.
func (p *plane) spend(r *Record, limit *policy.Micro) {
	if today := dayOf(time.Now()); p.day != today {
		p.day, p.spent = today, map[string]Spending{}
	}
	s := p.spent[r.Class]
	s.Phase, s.Consumed, s.Cap, s.Remaining = r.Class, s.Consumed.Plus(r.Cost), limit, nil
	if limit != nil {
		s.Remaining = new(max(*limit-s.Consumed, 0))
	}
	p.spent[r.Class] = s
	p.emit("budget", s)
}

// Attested emits the event of a receipt.
func (b *Bridge) Attested(a policy.Account, e Attestation) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plane(a).emit("attestation", e)
}

// SetKey sets the state of the provider's keys. name is the event of the change; "" for none.
func (b *Bridge) SetKey(k Key, name string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "" && k == Expired && b.key != Expired {
		name = "expired"
	}
	b.key = k
	if name == "" {
		return
	}
	for _, p := range b.accounts {
		p.emit("key-rotation", keyEvent{name})
	}
}

// emit stores an event and wakes the followers.
func (p *plane) emit(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil { // its values always marshal
		return
	}
	p.events = appendRing(p.events, event{p.next, name, data})
	p.next++
	for f := range p.followers {
		select {
		case f.wake <- struct{}{}:
		default: // already notified
		}
	}
}

// appendRing appends to a list of at most MaxRecords, dropping its first element if needed.
func appendRing[T any](list []T, e T) []T {
	if len(list) >= MaxRecords {
		copy(list, list[1:])
		list = list[:MaxRecords-1]
	}
	return append(list, e)
}

// Records returns an account's latest records, newest first.
func (b *Bridge) Records(a policy.Account, limit int) []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.accounts[a]
	if !ok {
		return []Record{}
	}
	return newest(p.records, limit)
}

// newest returns the last elements of a list, in reverse.
func newest[T any](list []T, limit int) []T {
	out := slices.Clone(list[max(0, len(list)-limit):])
	slices.Reverse(out)
	return out
}

// Status is the answer to GET /venice/status.
type Status struct {
	KeyStatus Key                 `json:"keyStatus"`
	Model     *string             `json:"activeModel"` // of the last call; null before the first
	Tiers     map[string]float64  `json:"privacyTierDistribution"`
	HitRates  map[string]float64  `json:"cacheHitRates"`
	Budget    map[string]Spending `json:"budget"`
	Cost      policy.Micro        `json:"totalCostUsd"`
	Tick      *string             `json:"lastTickId"`
	Mock      bool                `json:"mock"`
}

// Status returns what an account sees.
func (b *Bridge) Status(a policy.Account) Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{KeyStatus: b.key, Budget: map[string]Spending{}}
	p, ok := b.accounts[a]
	if !ok {
		p = &plane{}
	}
	s.fill(p.records)
	s.Cost = p.cost
	if p.day == dayOf(time.Now()) {
		s.Budget = maps.Clone(p.spent)
	}
	return s
}

// fill sets the fields that are derived from records.
func (s *Status) fill(records []Record) {
	s.Tiers, s.HitRates = distribution(records), hitRates(records)
	if n := len(records); n > 0 {
		s.Model, s.Tick = new(records[n-1].Model), new(records[n-1].Tick)
	}
}

// errFollowers returns the fault of a follower beyond the limit.
func errFollowers() error {
	return fault.Newf(fault.RateLimited, "too many streams are open: at most %d of one key, and %d in all", maxOfOne, maxFollowers)
}
