// Package cognition stores records of the private provider's calls, without content: one per call, rates per class of tasks, and the events of its
// live stream. Each account sees only its own calls. It does not know how requests are served, or how its endpoints are called.
package cognition

import (
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/attestation"
)

// Record is one call of the private provider, without content.
type Record struct {
	Tick        string       `json:"tick_id"`         // from the agent's hint; "" without one
	Class       string       `json:"cognition_class"` // class of the task; Unclassified without one
	Model       string       `json:"model_id"`
	Tier        string       `json:"privacy_tier"` // of the answer: private, tee or e2e
	Ray         string       `json:"cf_ray"`       // the provider's id of the answer, for its support
	LatencyMS   int64        `json:"latency_ms"`
	CachedRatio float64      `json:"cached_tokens_ratio"` // share of the input tokens that were read from the prompt cache
	Input       int64        `json:"input_tokens"`
	Output      int64        `json:"output_tokens"`
	Cost        policy.Micro `json:"cost_estimate_usdc"` // at the provider's prices, rounded up

	Balance  *policy.Micro `json:"balance_remaining"` // of the key; null without a balance
	Attested *bool         `json:"attestation_valid"` // null if no receipt was requested
	Valid    *bool         `json:"structured_output_valid"`
}

// Unclassified is the class of a call whose task has none.
const Unclassified = "unclassified"

// cognitionEvent is the event of a call.
type cognitionEvent struct {
	Tick        string       `json:"tickId"`
	Class       string       `json:"class"`
	Tier        string       `json:"privacyTier"`
	LatencyMS   int64        `json:"latencyMs"`
	CachedRatio float64      `json:"cachedTokenRatio"`
	Cost        policy.Micro `json:"costUsd"`
	Model       string       `json:"modelId"`
	Mock        bool         `json:"mock,omitempty"`
}

func (r *Record) event(mock bool) cognitionEvent {
	return cognitionEvent{Tick: r.Tick, Class: r.Class, Tier: r.Tier, LatencyMS: r.LatencyMS, CachedRatio: r.CachedRatio, Cost: r.Cost, Model: r.Model, Mock: mock}
}

// Attestation is the event of a receipt that was verified or refused.
type Attestation struct {
	Tick      string `json:"tickId"`
	Enclave   string `json:"enclaveId"` // its measurement; "" if the receipt is not trusted
	Verified  bool   `json:"verified"`
	Failure   string `json:"failureReason,omitempty"`
	LatencyMS int64  `json:"latencyMs"` // from the receipt's time to its verification
	Mock      bool   `json:"mock,omitempty"`
}

// Attested is a token with the result of its verification now.
type Attested struct {
	attestation.Token

	Verified bool `json:"verified"`
}

// Spending is what a phase of an agent's dreams has cost on a day.
type Spending struct {
	Phase     string        `json:"phase"`
	Consumed  policy.Micro  `json:"consumed"`
	Cap       *policy.Micro `json:"cap"` // null if the agent's daily budget is unlimited or unknown
	Remaining *policy.Micro `json:"remaining"`
	Mock      bool          `json:"mock,omitempty"`
}

// rates is the event of the rates of each class.
type rates struct {
	Rates map[string]float64 `json:"hitRates"`
	Mock  bool               `json:"mock,omitempty"`
}

// keyEvent is the event of a change of the provider's keys.
type keyEvent struct {
	Event string `json:"event"`
}

// hitRates returns the average share of cached input per class.
func hitRates(records []Record) map[string]float64 {
	sums, counts := map[string]float64{}, map[string]int{}
	for i := range records {
		sums[records[i].Class] += records[i].CachedRatio
		counts[records[i].Class]++
	}
	for class := range sums {
		sums[class] = round(sums[class] / float64(counts[class]))
	}
	return sums
}

// distribution returns the share of calls per tier.
func distribution(records []Record) map[string]float64 {
	out := map[string]float64{"private": 0, "tee": 0, "e2e": 0}
	for i := range records {
		out[records[i].Tier]++
	}
	for tier := range out {
		if n := len(records); n > 0 {
			out[tier] = round(out[tier] / float64(n))
		}
	}
	return out
}

// round rounds a rate to four digits, for display.
func round(f float64) float64 { return float64(int64(f*1e4+0.5)) / 1e4 }

// isDream reports whether spending on a class is reported as a phase of dreams.
func isDream(class string) bool {
	return class == "dream_nrem" || class == "dream_rem" || class == "dream_integration"
}

// dayOf returns the UTC day for which spending counts.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }
