package outcome

import (
	"cmp"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// RecordDecision records the decision after the last attempt.
func (o *Outcome) RecordDecision(d upstream.Decision) { o.Trace.SetDecision(d.Move.String(), d.Why) }

// RecordAttempt adds an attempt to the metrics and to the trace.
func (o *Outcome) RecordAttempt(to policy.Resolution, outcome, reason string, m telemetry.Outcome) {
	o.Trace.AddAttempt(o.Metrics, &to, m, outcome, reason, o.Trace.AttemptCount()+1 < len(o.Order))
}

// recordServed records that a candidate answered.
func (o *Outcome) recordServed(a *reading.Answer, outcome string) {
	if a == nil || a.Noted {
		return
	}
	a.Noted = true
	o.RecordAttempt(a.By, attemptOutcome(outcome), "", telemetry.Served)
	o.Health.Report(policy.Result{Provider: a.By.Provider, Outcome: policy.Succeeded, Latency: cmp.Or(o.Trace.FirstToken, time.Since(o.Started))})
	o.notifyLayers(a)
	if outcome == record.OK {
		o.Meter.Learn(&a.By, a.Count.Reported.Output, time.Since(a.Began))
		o.learnTokens(a)
	}
}

// attemptOutcome returns the outcome, in the request's record, of a billed call whose answer the client did not get.
func attemptOutcome(outcome string) string {
	if outcome == record.Invalid {
		return "schema"
	}
	return record.OK
}

// RecordAnswered records an attempt whose answer does not end the request.
func (o *Outcome) RecordAnswered(a *reading.Answer, outcome string) {
	took := time.Since(o.Trace.AttemptStarted)
	a.Noted = true
	o.RecordAttempt(a.By, outcome, "", telemetry.Served)
	o.Health.Report(policy.Result{Provider: a.By.Provider, Outcome: policy.Succeeded, Latency: took})
}

// RecordFailed records a failed attempt of the request's order, which is not billed.
func (o *Outcome) RecordFailed(to policy.Resolution, f *upstream.Failure) {
	o.Fallback(to, f)
	o.Bill.EndCall()
	o.RecordFailure(to, f)
}

// RecordFailure records a failed attempt: in the trace, for the provider's health, its key and its list of models.
func (o *Outcome) RecordFailure(to policy.Resolution, f *upstream.Failure) {
	o.RecordAttempt(to, f.String(), f.Reason(), f.Measure())
	if attempt.ConcernsOwnKey(o.View, f) {
		return
	}
	o.Ranking.DemoteMissing(&to, f)
	o.Retained(&to, f)
	o.KeyRefused(&to, f)
	o.reportUnattested(&to, f)
	if f.Status == http.StatusNotFound && o.IsTokenCount() {
		return // a provider that lacks this endpoint is healthy
	}
	r := f.Result()
	if o.Calls.CoolDownKey(f) {
		r.Outcome = policy.Ignored
	}
	o.Health.Report(r)
}

// NoAnswer returns the fault of a request that no candidate answered.
func (o *Outcome) NoAnswer(fs []*upstream.Failure) *fault.Fault {
	if o.Unanswered = attempt.OwnKeyRefused(o.View, fs); o.Unanswered == nil {
		o.Unanswered = upstream.Exhausted(fs)
	}
	if n := len(fs); n > 0 && (fs[n-1].Err == nil || !sameErrors(fs[n-1].Err.Dialect, o.Dialect.Name())) {
		o.Unanswered.Type = ""
	}
	return o.Unanswered
}

// sameErrors reports whether two formats have the same error types.
func sameErrors(a, b chat.Dialect) bool {
	family := func(d chat.Dialect) chat.Dialect {
		if d == chat.Responses || d == chat.Completions {
			return chat.OpenAI
		}
		return d
	}
	return family(a) == family(b)
}
