package cognition

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/attestation"
)

// Settings are the configuration of a request.
type Settings struct {
	Mock     bool          // no provider is configured: records are made up, and marked so
	MockRate time.Duration // between two of them

	Attested map[string]*attestation.Policy // trusted receipts, by provider
}

// mock makes up records that look like a real provider's. Each is a function of its number, and the number a function of time: it keeps no state, and
// all readers see the same.
type mock struct {
	began time.Time
	every time.Duration
}

// mockBoot is the prefix of the ids of made-up events.
const mockBoot = "mock"

// mockBegan is the time that numbers are counted from.
var mockBegan = time.Unix(0, 0)

func (s *Settings) source() *mock {
	return &mock{began: mockBegan, every: max(s.MockRate, minMockRate)}
}

// minMockRate is the minimum interval of made-up events.
const minMockRate = 10 * time.Millisecond

// now returns the number of the next record.
func (m *mock) now() int64 { return int64(time.Since(m.began) / m.every) }

// first returns the number of the oldest record that is kept.
func (m *mock) first() int64 { return max(0, m.now()-MaxRecords) }

// records returns the stored ones, oldest first.
func (m *mock) records() []Record {
	out := make([]Record, 0, MaxRecords)
	for n, now := m.first(), m.now(); n < now; n++ {
		out = append(out, m.record(n))
	}
	return out
}

// mockClass is a class of tasks with its tier, and the range of its cached input.
type mockClass struct {
	name        string
	least, most float64
}

// The classes of each tier: the cached share is high where prompts repeat.
var mockClasses = map[string][]mockClass{
	"private": {{name: "heartbeat", least: 0.4, most: 0.9}, {name: "dream_nrem", least: 0.4, most: 0.9}, {name: "dream_rem", least: 0.3, most: 0.7}},
	"tee":     {{name: "plan", least: 0.4, most: 0.65}, {name: "trade", least: 0.2, most: 0.5}, {name: "negotiate", least: 0.1, most: 0.35}, {name: "dream_integration", least: 0.3, most: 0.6}},
	"e2e":     {{name: "sealed_auction", least: 0, most: 0}},
}

// record returns the record with a number: 60 % private, 35 % in an enclave, 5 % encrypted; 800 to 4000 ms.
func (m *mock) record(n int64) Record {
	r := rand.New(rand.NewPCG(uint64(n), 0xbadc0de)) //nolint:gosec // made-up figures, not secrets
	tier := "private"
	switch p := r.Float64(); {
	case p < 0.05:
		tier = "e2e"
	case p < 0.40:
		tier = "tee"
	}
	classes := mockClasses[tier]
	c := classes[r.IntN(len(classes))]
	out := Record{
		Tick: "mock-" + strconv.FormatInt(n, 10), Class: c.name, Model: "venice-llama-3.3-70b", Tier: tier, Ray: fmt.Sprintf("mock-%016x", r.Uint64()), LatencyMS: 800 + r.Int64N(3201),
		CachedRatio: round(c.least + (c.most-c.least)*r.Float64()), Input: 1000 + r.Int64N(4000), Output: 50 + r.Int64N(750),
	}
	out.Cost = policy.Micro(out.Input + 3*out.Output)
	if tier != "private" {
		out.Valid = new(true)
	}
	if tier == "tee" {
		out.Attested = new(r.IntN(50) > 0)
	}
	return out
}

// appendEvents appends the events of a record.
func (m *mock) appendEvents(b []byte, n int64) []byte {
	r := m.record(n)
	events := []struct {
		name string
		v    any
	}{{"cognition", r.event(true)}}
	if r.Attested != nil {
		a := Attestation{Tick: r.Tick, Enclave: "mock", Verified: *r.Attested, LatencyMS: r.LatencyMS / 10, Mock: true}
		if !a.Verified {
			a.Enclave, a.Failure = "", "stale"
		}
		events = append(events, struct {
			name string
			v    any
		}{"attestation", a})
	}
	if isDream(r.Class) {
		s := mockBudget(r.Class, m.records())
		events = append(events, struct {
			name string
			v    any
		}{"budget", s})
	}
	for _, t := range events {
		data, err := json.Marshal(t.v)
		if err != nil { // they always marshal
			continue
		}
		b = appendEvent(b, mockBoot, n, t.name, data)
	}
	return b
}

// mockCaps are the budgets of the phases.
var mockCaps = map[string]policy.Micro{"dream_nrem": 200_000, "dream_rem": 250_000, "dream_integration": 100_000}

func mockBudget(class string, records []Record) Spending {
	s := Spending{Phase: class, Cap: new(mockCaps[class]), Mock: true}
	for i := range records {
		if records[i].Class == class {
			s.Consumed = s.Consumed.Plus(records[i].Cost)
		}
	}
	s.Consumed = min(s.Consumed, *s.Cap)
	s.Remaining = new(*s.Cap - s.Consumed)
	return s
}

// MockRecords returns the latest made-up records, newest first.
func (s *Settings) MockRecords(limit int) []Record { return newest(s.source().records(), limit) }

// MockStatus returns the status of the made-up provider.
func (s *Settings) MockStatus() Status {
	records := s.source().records()
	out := Status{KeyStatus: Active, Budget: map[string]Spending{}, Mock: true}
	out.fill(records)
	for i := range records {
		out.Cost = out.Cost.Plus(records[i].Cost)
	}
	for class := range mockCaps {
		out.Budget[class] = mockBudget(class, records)
	}
	return out
}

// MockTokens are made-up tokens of attested answers, newest first.
func (s *Settings) MockTokens(limit int) (out []Attested) {
	for _, r := range s.MockRecords(MaxRecords) {
		if r.Attested == nil || len(out) == limit {
			continue
		}
		out = append(out, Attested{
			Token:    attestation.Token{RequestID: r.Tick, GolemID: mockBoot, TaskClass: r.Class, Provider: mockBoot, Model: r.Model, Measurement: mockBoot},
			Verified: *r.Attested,
		})
	}
	return out
}
