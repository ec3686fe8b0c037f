package report

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// The inference.* events: those of a request from start to end. Token events are only emitted while a client reads the stream of the request's key;
// all others go to every sink.

const (
	// tokensEvery is the minimum interval between two token events of one kind.
	tokensEvery = 250 * time.Millisecond
	// bytesPerToken is the approximate number of bytes of text per token.
	bytesPerToken = 4
)

// inference is the state of these events for the request.
type inference struct {
	sequence  int64
	started   bool
	thinking  bool  // the pending output is reasoning
	output    int64 // pending bytes
	emittedAt time.Time
}

// inference returns the common fields of the next event.
func (r *Report) inference() record.Inference {
	r.stream.sequence++
	return record.Inference{
		Timestamp: time.Now().UnixMilli(), GolemID: r.Hints.GolemID, Sequence: r.stream.sequence - 1, Tick: r.Hints.Tick, RequestID: r.ID,
	}
}

// start emits the event of a request before it is sent to its first candidate.
func (r *Report) start(to *policy.Resolution) {
	r.stream.started = true
	record.EventStart.Emit(r.Events(), r.Principal.Account, record.InferenceStart{
		Inference: r.inference(), Model: to.Model, Provider: to.Provider, Tier: intent.TierOf(r.Hints.Subsystem), Subsystem: r.Hints.Subsystem,
	})
}

// Tokens counts an event of the answer, and emits the pending output when due, if a client reads it.
func (r *Report) Tokens(ev *chat.Event) {
	if !r.stream.started || !ev.Kind.IsContent() || len(ev.Text) == 0 {
		return
	}
	t := &r.stream
	if thinking := ev.Kind == chat.Thought; thinking != t.thinking {
		r.tokens()
		t.thinking = thinking
	}
	t.output += int64(len(ev.Text))
	if time.Since(t.emittedAt) >= tokensEvery {
		r.tokens()
	}
}

// tokens emits the event of the pending output.
func (r *Report) tokens() {
	t := &r.stream
	n := (t.output + bytesPerToken - 1) / bytesPerToken
	t.output, t.emittedAt = 0, time.Now()
	if n > 0 && r.Events().Reading(r.Principal.Account) {
		record.EventToken.Emit(r.Events(), r.Principal.Account, record.InferenceToken{Inference: r.inference(), TokenCount: n, IsReasoning: t.thinking})
	}
}

// fellBack emits the event of a failover.
func (r *Report) fellBack(failed, to policy.ProviderID, reason string) {
	record.EventFellBack.Emit(r.Events(), r.Principal.Account, record.InferenceFallback{Inference: r.inference(), Failed: failed, Fallback: to, Reason: reason})
}

// over emits the events of a request that has ended: a stored answer's, or the end of one that had started.
func (r *Report) over() {
	s := r.Trace.Settled
	if s == nil || !r.Events().On() {
		return
	}
	if s.Stored {
		record.EventCacheHit.Emit(r.Events(), r.Principal.Account, record.InferenceCacheHit{Inference: r.inference(), CacheType: string(r.Trace.Cache), Savings: s.Saved})
		return
	}
	if !r.stream.started && r.Later == nil { // a deferred request's start was emitted when it was accepted
		return
	}
	r.tokens()
	e := record.InferenceEnd{
		Inference: r.inference(), Model: s.By.Model, Provider: s.By.Provider, InputTokens: s.Usage.TotalInput(), OutputTokens: s.Usage.Output, Cost: s.Charged,
		LatencyMS: time.Since(r.Started).Milliseconds(), Outcome: s.Outcome,
	}
	if e.InputTokens > 0 {
		e.CacheHitRate = float64(s.Usage.Cached) / float64(e.InputTokens)
	}
	record.EventEnd.Emit(r.Events(), r.Principal.Account, e)
}
