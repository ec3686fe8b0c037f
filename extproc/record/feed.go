package record

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// Finished is a finished request in the event stream (bardo watch). The requested model, which a client chooses freely, is limited in length.
type Finished struct {
	ID             string            `json:"id"`
	At             time.Time         `json:"at"`
	Account        policy.Account    `json:"account"`   // the key's id; "" without a key
	Operation      string            `json:"operation"` // chat, count_tokens, explain, passthrough; other without an endpoint
	Dialect        chat.Dialect      `json:"dialect"`
	Subsystem      string            `json:"subsystem,omitempty"`
	Stream         bool              `json:"stream"`
	RequestedModel string            `json:"requested_model"`
	Model          policy.ModelID    `json:"model"`    // "" without an answer
	Provider       policy.ProviderID `json:"provider"` // the one that answered, else that of the last attempt
	Attempts       []Attempt         `json:"attempt_log"`
	Status         int               `json:"status"`          // HTTP
	Code           string            `json:"error,omitempty"` // kind of the client's error
	Outcome        string            `json:"outcome"`         // ok, cut, cancelled, failed, left
	InputTokens    int64             `json:"input_tokens"`
	CachedTokens   int64             `json:"cached_tokens"`
	OutputTokens   int64             `json:"output_tokens"`
	Cost           policy.Micro      `json:"cost_usd"`
	Savings        policy.Micro      `json:"savings_usd"`
	Cache          string            `json:"cache"`
	LatencyMS      int64             `json:"latency_ms"`
	FirstTokenMS   int64             `json:"first_token_ms,omitempty"`

	CacheWriteTokens int64   `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64   `json:"reasoning_tokens,omitempty"`
	Similarity       float64 `json:"similarity,omitempty"` // to the stored answer's question
	Timeline         `json:"timeline"`
}

// Publish emits how a request that began at began ended, and that the metrics count as r. f returns the request's own fields; it is only called if
// there is a subscriber. Lookups of models, balances and health are not published.
func (t *Trace) Publish(feed *event.Feed[Finished], r *telemetry.Request, began time.Time, f func() Finished) {
	if !feed.Watched() || t.Operation == telemetry.Lookup && t.Fault == nil {
		return
	}
	e := f()
	t.finish(&e, r, began)
	feed.Publish(e)
}

func (t *Trace) finish(f *Finished, r *telemetry.Request, began time.Time) {
	f.At, f.Operation, f.Status, f.Code = began.Add(r.Duration).UTC(), r.Operation.String(), r.Status, r.Code
	f.Attempts, f.Cache, f.Outcome = append([]Attempt{}, t.Attempts...), t.Cache.OrMiss(), t.outcome()
	f.InputTokens, f.CachedTokens, f.OutputTokens = r.Tokens.Input+r.Tokens.Cached+r.Tokens.CacheWrite, r.Tokens.Cached, r.Tokens.Output
	f.CacheWriteTokens, f.ReasoningTokens, f.Similarity = r.Tokens.CacheWrite, r.Tokens.Reasoning, t.Similarity
	f.finish(t, began, r.Duration)
	f.Cost, f.LatencyMS, f.FirstTokenMS = policy.Micro(r.Charged), r.Duration.Milliseconds(), r.FirstToken.Milliseconds()
	if r.Provider != "" {
		f.Model = policy.ModelID(r.Model)
	}
	provider, _ := t.LastCalled(r)
	f.Provider = policy.ProviderID(provider)
	if t.Settled != nil {
		f.Savings = t.Settled.Saved
	}
}

// Ending returns how the request ended: its outcome, the client's error code, and the candidate that answered or was called last.
func (t *Trace) Ending() (outcome, code string, by policy.Resolution) {
	if t.Fault != nil {
		code = string(t.Fault.Kind)
	}
	if t.Settled != nil {
		by = t.Settled.By
	}
	return t.outcome(), code, by
}

// outcome returns how the request ended, as in the event stream.
func (t *Trace) outcome() string {
	switch {
	case t.Settled != nil:
		return t.Settled.Outcome
	case t.Unbilled != nil:
		return t.Unbilled.Outcome
	case t.Fault == nil:
		return Disconnected
	}
	return Failed
}
