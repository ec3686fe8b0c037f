// Package meter holds a request to what its caller may use and spend, keeps count of what its calls of providers took, and charges for
// them exactly once, whichever way the request ends. It knows amounts, tokens and times; it does not know HTTP, Envoy, a provider's format
// or how a candidate is chosen.
//
// A request has one Bill. Its life is: Admit (rate, concurrency, what is used up; before its body is read), Hold (the allowance and the
// day's money), Reserve (the most that it may cost, of its Payer), Begin and Add for each call of a provider, and then either Settle, which
// charges, or Release, which gives everything back. Both end the bill; what comes later changes nothing.
package meter

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/spend"
)

// Meter is what the bills of a gateway share. Safe for concurrent use.
type Meter struct {
	Limiter *quota.Limiter
	Books   Books
	Budgets *budget.Meter // of agents
	Shared  *spend.Book   // of keys, projects and owners; required where a caller has budgets
	rates   *lru.Cache[rateKey, rate]
	factors *lru.Cache[policy.ModelID, *factor]
}

// New makes a meter.
func New(l *quota.Limiter, books Books, b *budget.Meter) *Meter {
	rates, _ := lru.New[rateKey, rate](mostRates) // fails for sizes below 1 only
	factors, _ := lru.New[policy.ModelID, *factor](mostRates)
	return &Meter{Limiter: l, Books: books, Budgets: b, rates: rates, factors: factors}
}

// CountBudgets has the budgets of keys, projects and owners counted: with other gateways where their limits are, else with what spent says of these.
func (m *Meter) CountBudgets(spent spend.Spent) {
	if m.Limiter.Together() {
		m.Shared = spend.NewTogether(m.Limiter)
		return
	}
	m.Shared = spend.New(spent)
}

// mostRates bounds how many models' speeds, and corrections of estimates, are remembered.
const mostRates = 4096

// rateKey is a model at a provider.
type rateKey struct {
	provider policy.ProviderID
	model    policy.ModelID
}

// rate is how many output tokens a model writes per second.
type rate float64

// DefaultRate is the speed of a model of which no answer was seen yet, in output tokens per second.
const DefaultRate = 50

// What an answer must have for its speed to be believed: very short ones are mostly waiting.
const (
	leastRated = 32 // output tokens
	leastTime  = 200 * time.Millisecond
	newest     = 0.2 // weight of the latest answer in the average
)

// Learn notes how long a complete answer took, from the moment that its request went out.
func (m *Meter) Learn(to *policy.Resolution, output int64, took time.Duration) {
	if output < leastRated || took < leastTime {
		return
	}
	k, now := rateKey{to.Provider, to.Model}, rate(float64(output)/took.Seconds())
	if before, ok := m.rates.Get(k); ok {
		now = newest*now + (1-newest)*before
	}
	m.rates.Add(k, now)
}

// written is about how many tokens a model writes in a time.
func (m *Meter) written(to *policy.Resolution, d time.Duration) int64 {
	r, ok := m.rates.Get(rateKey{to.Provider, to.Model})
	if !ok {
		r = DefaultRate
	}
	return int64(float64(r) * max(d, 0).Seconds())
}
