// Package meter limits what a request may use and spend, counts the usage of its provider calls, and charges for them exactly once, however the
// request ends. It knows amounts, tokens and times; it does not know HTTP, Envoy, a provider's format or how candidates are chosen.
//
// A request has one Bill. Its life is: Admit (rate, concurrency, exhausted limits; before its body is read), Hold (usage allowance and daily budget),
// Reserve (its maximum cost, with its Payer), Begin and Add for each provider call, and then either Settle, which charges, or Release, which releases
// everything. Both end the bill; later calls change nothing.
package meter

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/spend"
)

// Meter is the state that the bills of a gateway share. Safe for concurrent use.
type Meter struct {
	Limiter *quota.Limiter
	Books   Books
	Budgets *budget.Meter // agents' budgets
	Shared  *spend.Book   // budgets of keys, projects and owners; required if a caller has any
	rates   *lru.Cache[rateKey, rate]
	factors *lru.Cache[policy.ModelID, *factor]
}

// New returns a meter.
func New(l *quota.Limiter, books Books, b *budget.Meter) *Meter {
	rates, _ := lru.New[rateKey, rate](maxRates) // fails for sizes below 1 only
	factors, _ := lru.New[policy.ModelID, *factor](maxRates)
	return &Meter{Limiter: l, Books: books, Budgets: b, rates: rates, factors: factors}
}

// CountBudgets enables the budgets of keys, projects and owners: counted across gateways if their limits are, else from what spent returns.
func (m *Meter) CountBudgets(spent spend.Spent) {
	if m.Limiter.IsShared() {
		m.Shared = spend.NewShared(m.Limiter)
		return
	}
	m.Shared = spend.New(spent)
}

// maxRates is the maximum number of models whose speed and estimate correction are kept.
const maxRates = 4096

// rateKey is a model at a provider.
type rateKey struct {
	provider policy.ProviderID
	model    policy.ModelID
}

// rate is a model's output speed in tokens per second.
type rate float64

// DefaultRate is the assumed speed of a model without an answer yet, in output tokens per second.
const DefaultRate = 50

// Conditions for measuring a model's speed: very short answers are mostly latency.
const (
	minRated  = 32 // minimum output tokens
	leastTime = 200 * time.Millisecond
	newest    = 0.2 // weight of the latest answer in the average
)

// Learn records the duration of a complete answer, from the time its request was sent.
func (m *Meter) Learn(to *policy.Resolution, output int64, took time.Duration) {
	if output < minRated || took < leastTime {
		return
	}
	k, now := rateKey{to.Provider, to.Model}, rate(float64(output)/took.Seconds())
	if before, ok := m.rates.Get(k); ok {
		now = newest*now + (1-newest)*before
	}
	m.rates.Add(k, now)
}

// written returns the approximate number of tokens that a model writes in d.
func (m *Meter) written(to *policy.Resolution, d time.Duration) int64 {
	r, ok := m.rates.Get(rateKey{to.Provider, to.Model})
	if !ok {
		r = DefaultRate
	}
	return int64(float64(r) * max(d, 0).Seconds())
}
