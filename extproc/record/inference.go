package record

import (
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// The events of an inference in progress, for live display.
var (
	EventStart    = event.Declare[InferenceStart]("inference.start", "A request is about to be sent to its first candidate.")
	EventToken    = event.Declare[InferenceToken]("inference.token", "Output came, at most four times a second; only while a stream is read.")
	EventEnd      = event.Declare[InferenceEnd]("inference.end", "A request is over.")
	EventCacheHit = event.Declare[InferenceCacheHit]("inference.cache_hit", "A stored answer was sent.")
	EventFellBack = event.Declare[InferenceFallback]("inference.provider_fallback", "A provider failed, and the next one is tried.")
)

// Inference is the common part of these events.
type Inference struct {
	Timestamp int64  `json:"timestamp"` // Unix time in milliseconds
	GolemID   string `json:"golem_id,omitempty"`
	Sequence  int64  `json:"sequence"` // increases by one with each of these events of the request
	Tick      int64  `json:"tick,omitempty"`
	RequestID string `json:"request_id"`
}

// InferenceStart is emitted before a request is sent to its first candidate.
type InferenceStart struct {
	Inference
	Model     policy.ModelID    `json:"model"`
	Provider  policy.ProviderID `json:"provider"`
	Tier      string            `json:"tier,omitempty"` // of the heartbeat: T1 or T2
	Subsystem string            `json:"subsystem"`
}

// InferenceToken is emitted for the output since the last one: its amount, not its content.
type InferenceToken struct {
	Inference
	TokenCount  int64 `json:"token_count"`  // estimated from the text's length
	IsReasoning bool  `json:"is_reasoning"` // the output is reasoning
}

// InferenceEnd is emitted at the end of a request.
type InferenceEnd struct {
	Inference
	Model        policy.ModelID    `json:"model"`
	Provider     policy.ProviderID `json:"provider"`
	InputTokens  int64             `json:"input_tokens"`
	OutputTokens int64             `json:"output_tokens"`
	Cost         policy.Micro      `json:"cost_usd"` // charge to the caller
	LatencyMS    int64             `json:"latency_ms"`
	CacheHitRate float64           `json:"cache_hit_rate"` // part of the input that the provider read from its prompt cache, 0 to 1
	Outcome      string            `json:"outcome"`
}

// InferenceCacheHit is emitted for a stored answer.
type InferenceCacheHit struct {
	Inference
	CacheType string       `json:"cache_type"` // hash, semantic, stale or coalesced
	Savings   policy.Micro `json:"savings_usd"`
}

// InferenceFallback is emitted for a failover to another provider.
type InferenceFallback struct {
	Inference
	Failed   policy.ProviderID `json:"failed_provider"`
	Fallback policy.ProviderID `json:"fallback_provider"`
	Reason   string            `json:"reason"`
}
