package record

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/telemetry"
)

// Measure fills in the metrics of a request that began at began. r has its model and whether it is streamed; called reports whether a provider was
// called.
func (t *Trace) Measure(r *telemetry.Request, began time.Time, called bool) {
	r.Duration, r.FirstToken, r.Overhead, r.Operation = time.Since(began), t.FirstToken, t.Overhead, t.Operation
	r.Status, r.Code = t.Verdict()
	if e := t.Unbilled; e != nil {
		r.Provider = string(e.Provider)
	}
	if s := t.Settled; s != nil && (s.Outcome == OK || called) {
		r.Provider, r.Model = string(s.By.Provider), string(s.By.Model)
		r.Tokens, r.ProviderCost, r.Charged = s.Tokens(), int64(s.Cost), int64(s.Charged)
	}
}

// Count adds a request to the metrics.
func (t *Trace) Count(m *telemetry.Metrics, r *telemetry.Request) {
	if c, ok := t.Cache.measure(); ok {
		m.CacheLookup(c)
	}
	m.RequestDone(r)
	if t.Settled == nil {
		return
	}
	for i := range t.Settled.Savings {
		s := &t.Settled.Savings[i]
		m.LayerSaved(s.Layer, s.Tokens, int64(s.Amount))
	}
}

// Tokens returns the tokens of provider calls: none for a stored answer.
func (s *Settlement) Tokens() telemetry.Tokens {
	if s.Stored {
		return telemetry.Tokens{}
	}
	return tokens(&s.Usage)
}

// tokens returns a usage by type; both lifetimes of cache writes count as one.
func tokens(u *chat.Usage) telemetry.Tokens {
	return telemetry.Tokens{Input: u.Input, Cached: u.Cached, CacheWrite: u.CacheWrite + u.CacheWrite1h, Output: u.Output, Reasoning: u.Reasoning}
}
