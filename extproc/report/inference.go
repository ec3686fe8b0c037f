package report

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// The inference.* events: those of a request from its start to its end. All but those of tokens go wherever events go; those of tokens are made only while somebody
// reads the stream of the request's key.

const (
	// tokensEvery is the least time between two events of tokens of one kind.
	tokensEvery = 250 * time.Millisecond
	// bytesPerToken is about how many bytes of text a token has.
	bytesPerToken = 4
)

// inference is what these events have told of the request.
type inference struct {
	sequence int64
	started  bool
	thinking bool  // what output is
	output   int64 // bytes that were not told yet
	told     time.Time
}

// inference is the beginning of the next event.
func (r *Report) inference() record.Inference {
	r.told.sequence++
	return record.Inference{
		Timestamp: time.Now().UnixMilli(), GolemID: r.Hints.GolemID, Sequence: r.told.sequence - 1, Tick: r.Hints.Tick, RequestID: r.ID,
	}
}

// start emits the event of a request that is about to be sent to its first candidate.
func (r *Report) start(to *policy.Resolution) {
	r.told.started = true
	record.EventStart.Emit(r.Events(), r.Principal.Account, record.InferenceStart{
		Inference: r.inference(), Model: to.Model, Provider: to.Provider, Tier: intent.TierOf(r.Hints.Subsystem), Subsystem: r.Hints.Subsystem,
	})
}

// Tokens counts an event of the answer, and emits what came since the last one, if somebody reads it.
func (r *Report) Tokens(ev *chat.Event) {
	if !r.told.started || !ev.Kind.IsContent() || len(ev.Text) == 0 {
		return
	}
	t := &r.told
	if thinking := ev.Kind == chat.Thought; thinking != t.thinking {
		r.tokens()
		t.thinking = thinking
	}
	t.output += int64(len(ev.Text))
	if time.Since(t.told) >= tokensEvery {
		r.tokens()
	}
}

// tokens emits the event of output that was not told yet.
func (r *Report) tokens() {
	t := &r.told
	n := (t.output + bytesPerToken - 1) / bytesPerToken
	t.output, t.told = 0, time.Now()
	if n > 0 && r.Events().Reading(r.Principal.Account) {
		record.EventToken.Emit(r.Events(), r.Principal.Account, record.InferenceToken{Inference: r.inference(), TokenCount: n, IsReasoning: t.thinking})
	}
}

// fellBack emits the event of a failover.
func (r *Report) fellBack(failed, to policy.ProviderID, reason string) {
	record.EventFellBack.Emit(r.Events(), r.Principal.Account, record.InferenceFallback{Inference: r.inference(), Failed: failed, Fallback: to, Reason: reason})
}

// over emits the events of a request that has ended: a stored answer's, or the end of one that had begun.
func (r *Report) over() {
	s := r.Trace.Settled
	if s == nil || !r.Events().On() {
		return
	}
	if s.Stored {
		record.EventCacheHit.Emit(r.Events(), r.Principal.Account, record.InferenceCacheHit{Inference: r.inference(), CacheType: string(r.Trace.Cache), Savings: s.Saved})
		return
	}
	if !r.told.started && r.Later == nil { // that a deferred request began was told when it was accepted
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
