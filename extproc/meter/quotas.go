package meter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// Quotas count an expression of a request's usage. The sum of all its calls is one usage, at the model of the last of its own calls.

// HasQuotas reports whether Hold needs the request's highest possible usage.
func (b *Bill) HasQuotas() bool { return b.meter.Limiter.HasQuotas() }

// Usage returns a usage of the request at a candidate without any numbers.
func (b *Bill) Usage(to *policy.Resolution) rule.Usage {
	return rule.Usage{
		Model: string(to.Model), Provider: string(to.Provider), Subsystem: b.request.Subsystem(),
		Key: string(b.principal.Account), KeyName: b.principal.Name, Tier: string(b.principal.Tier),
	}
}

// countQuotas counts the usage of the request's calls that its caller does not pay with a key of its own. Without any, nothing counts.
func (b *Bill) countQuotas(charged policy.Micro) {
	if b.accepted && !b.HasQuotas() || !b.accepted && !b.grant.HasQuotas() {
		return
	}
	var (
		sum chat.Usage
		by  *policy.Resolution
	)
	for i := range b.calls {
		c := &b.calls[i]
		if b.request.Terms(&c.To).Direct {
			continue
		}
		if sum = Sum(c.Usage, sum); by == nil || c.Side == "" {
			by = &c.To
		}
	}
	if by == nil {
		return
	}
	used := b.Usage(by)
	counted := used
	used.Input, used.Cached, used.CacheWrite = sum.TotalInput(), sum.Cached, add(sum.CacheWrite, sum.CacheWrite1h)
	used.Output, used.Reasoning, used.CostUSD = sum.Output, sum.Reasoning, float64(charged)/float64(policy.USD)
	if !b.accepted {
		b.grant.Measure(time.Now(), &used)
		return
	}
	counted.Input = b.request.InputTokens()
	b.meter.Limiter.CountQuotas(time.Now(), &b.principal, &used, &counted)
}

// countAccepted counts the input of a deferred request.
func (b *Bill) countAccepted(input int64) {
	if !b.grant.HasQuotas() {
		return
	}
	used := b.first
	used.Input, used.Output, used.CostUSD = input, 0, 0
	b.grant.Measure(time.Now(), &used)
}
