package extproc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
)

// settle ends the request's bill. Every way in which a request can end comes here, once. a is the client's answer, complete or not; nil for none. It
// returns when the charge is durable (prepaid keys) or queued (others), before the last byte is sent. A client disconnect does not undo it.
func (x *exchange) settle(ctx context.Context, a *reading.Answer, outcome string) (*report.Summary, error) {
	if x.trace.Settled != nil {
		return x.report.Summary(x.trace.Settled), nil
	}
	x.calls.Answered()
	var by *policy.Resolution
	if a != nil {
		by, x.report.DegradedAnswer = &a.By, a.Encoder.Degraded()
	}
	if x.report.Stored != nil {
		return x.settleStored(ctx, outcome)
	}
	s := x.newSummary(outcome)
	if !x.IsTokenCount() { // a token count costs nothing
		x.billLastCall(a, outcome)
	}
	total := x.bill.Total()
	s.Usage, s.Cost, s.Charged, s.By = total.Usage, total.Cost, total.Charged, x.report.By(by)
	if outcome == record.OK {
		s.Savings, s.Saved = x.effects.Saved(&s.By)
	}
	if outcome == record.OK || outcome == record.Invalid || outcome == record.Refused || outcome == record.Cancelled && a != nil && a.Content {
		x.recordServed(a, outcome)
	}
	x.client.Turn()
	if err := x.book(ctx, s, &total); err != nil {
		x.voidStoredProof()
		return nil, err
	}
	if a == nil {
		x.report.Cognition(s, cognition.Seen{})
		return s, nil
	}
	x.report.Cognition(s, a.Seen)
	x.report.Answered(&a.By, &s.Usage)
	x.reportReasoning(a)
	x.keepReasoning(a)
	if err := x.recordStoredOwners(ctx, a); err != nil {
		return nil, err
	}
	return s, nil
}

// recordStoredOwners records the owner of what a provider stored with its answer: the response, its items, and resources such as a container. It is
// recorded before the client has the whole answer.
func (x *exchange) recordStoredOwners(ctx context.Context, a *reading.Answer) error {
	if !x.storedByProvider(a) {
		return nil
	}
	ids := a.StoredIDs
	if x.StoredAt(&a.By) && a.ID != "" {
		ids = append(ids, a.ID)
	}
	return x.gw.Ledger.AddStoredResources(context.WithoutCancel(ctx), passthrough.Owned(x.Principal.Account, a.By.Provider, ids)...)
}

// storedByProvider reports whether the provider stored anything with its answer whose owner has to be recorded.
func (x *exchange) storedByProvider(a *reading.Answer) bool {
	return !x.OwnKey.IsSet() && (len(a.StoredIDs) > 0 || x.StoredAt(&a.By) && a.ID != "")
}

// settlesSlowly reports whether settle waits for the ledger: to record an owner, or to reserve more money.
func (x *exchange) settlesSlowly(a *reading.Answer) bool {
	return x.storedByProvider(a) || !x.bill.Reserved(a.RequestTotal().Charged)
}

// billLastCall bills the call that the request ends with.
func (x *exchange) billLastCall(a *reading.Answer, outcome string) {
	switch {
	case a != nil && !a.Counted && (outcome == record.OK || outcome == record.Invalid || outcome == record.Refused):
		x.billAnswer(a, a.Total())
	case outcome == record.Cut || outcome == record.Cancelled || outcome == record.Disconnected:
		x.interrupt(a)
	}
}

// interrupt bills the call in flight, if any, for the part that was received: the request ends during it.
func (x *exchange) interrupt(a *reading.Answer) {
	to, since := x.bill.InFlight()
	if to == nil {
		return
	}
	var c *meter.Count
	if a != nil && !a.Counted {
		a.Counted, c = true, &a.Count
	}
	if c == nil || !a.Content {
		x.trace.Attempts = append(x.trace.Attempts, record.Attempt{
			Provider: to.Provider, Model: to.Model, Outcome: record.ClientClosed, Began: since, Took: time.Since(since),
		})
	}
	u := x.bill.Interrupted(to, c, since)
	x.bill.EndCall()
	if x.bill.Add(to, u) {
		x.report.Capped(to, &u)
	}
}

// recordDecision records the decision after the last attempt.
func (x *exchange) recordDecision(d upstream.Decision) { x.trace.SetDecision(d.Move.String(), d.Why) }

// recordAttempt adds an attempt to the metrics and to the trace.
func (x *exchange) recordAttempt(to policy.Resolution, outcome, reason string, o telemetry.Outcome) {
	x.trace.AddAttempt(x.gw.Metrics, &to, o, outcome, reason, x.trace.AttemptCount()+1 < len(x.Order))
}

// recordServed records that a candidate answered.
func (x *exchange) recordServed(a *reading.Answer, outcome string) {
	if a == nil || a.Noted {
		return
	}
	a.Noted = true
	x.recordAttempt(a.By, attemptOutcome(outcome), "", telemetry.Served)
	x.gw.Health.Report(policy.Result{Provider: a.By.Provider, Outcome: policy.Succeeded, Latency: cmp.Or(x.trace.FirstToken, time.Since(x.Started))})
	x.notifyLayers(a)
	if outcome == record.OK {
		x.gw.meter.Learn(&a.By, a.Count.Reported.Output, time.Since(a.Began))
		x.learnTokens(a)
	}
}

// newSummary returns a summary of the request's outcome; settle fills in the cost.
func (x *exchange) newSummary(outcome string) *report.Summary {
	x.trace.Settled = &record.Settlement{Outcome: outcome, Stored: x.report.Stored != nil}
	return x.report.Summary(x.trace.Settled)
}

// book writes the charge of a total and the request's record.
func (x *exchange) book(ctx context.Context, s *report.Summary, t *meter.Total) error {
	if x.IsTokenCount() {
		return nil
	}
	r, err := x.bill.Settle(ctx, t, ledger.Charge{
		Tokens:   ledger.Tokens(s.Tokens()),
		Provider: s.By.Provider, Model: s.By.Model, Subsystem: x.Hints.Subsystem, Status: s.Outcome, Record: s.Record(x.pathName()), At: x.Started,
		Agent: x.Hints.GolemID, Part: budget.PartOf(x.Hints.Subsystem).String(), Savings: s.Savings,
	})
	if err != nil {
		return err
	}
	x.later.Note()
	x.funds.SpendSession(ctx, r.Charged)
	s.Charged, s.Standing = r.Charged, x.bill.Standing()
	return nil
}

// finish settles a request that was not settled yet, as after a client disconnect, and reports its end.
func (x *exchange) finish() {
	if x.later.Interrupted(&x.trace) {
		x.bill.Release()
		x.gw.Metrics.ExchangeEnded()
		return
	}
	x.settleUnfinished()
	x.bill.Release()
	if x.later.RunsAgain(&x.trace, len(x.bill.Calls())) { // the last run is counted instead
		x.gw.Metrics.ExchangeEnded()
		return
	}
	x.count()
}

// settleUnfinished settles a request that was not answered, or whose client disconnected, if it is not settled yet.
func (x *exchange) settleUnfinished() {
	switch {
	case x.trace.Settled != nil || x.trace.Unbilled != nil || !x.trace.Operation.Metered() || x.later.RunsAgain(&x.trace, len(x.bill.Calls())):
		return
	case x.neverCalled():
		x.refuse()
		return
	case x.Request == nil:
		return
	}
	if _, err := x.settle(context.Background(), x.partial(), x.unfinished()); err != nil {
		x.gw.Log.Error("a request that ended early was not charged", "request", x.ID, "error", err)
	}
}

// partial returns the incomplete answer; nil for none.
func (x *exchange) partial() *reading.Answer {
	if x.trace.Fault != nil {
		return nil
	}
	return x.current
}

// unfinished returns the outcome of a request that was not settled when it ended.
func (x *exchange) unfinished() string {
	switch {
	case x.trace.Fault != nil:
		return record.Failed
	case x.current != nil && x.current.Content || x.bill.Answers() > 0:
		return record.Cancelled
	}
	return record.Disconnected
}

// count reports the end of the request to each sink.
func (x *exchange) count() {
	var r telemetry.Request
	if x.Request != nil {
		r.Model, r.Streamed = x.Request.Model, x.Request.Stream
	}
	t := &x.trace
	t.Measure(&r, x.Started, len(x.bill.Calls()) > 0)
	for i := range x.Log {
		x.gw.Metrics.LayerDone(x.Log[i].Layer, x.Log[i].Took)
	}
	x.report.Over()
	x.Ended(t.Ending())
	t.Count(x.gw.Metrics, &r)
	x.effects.Observed(x.gw.Governor, x.failedValidation != nil)
	if t.Cache == record.CacheMiss {
		x.Cache.Miss()
	}
	t.Publish(x.gw.Finished, &r, x.Started, x.report.Finished)
	t.Log(x.gw.Log, x.ID, x.Principal.Account, &r)
	x.gw.Metrics.ExchangeEnded()
}

// attemptOutcome returns the outcome, in the request's record, of a billed call whose answer the client did not get.
func attemptOutcome(outcome string) string {
	if outcome == record.Invalid {
		return "schema"
	}
	return record.OK
}

// charge bills a call whose answer the client does not get, once.
func (x *exchange) charge(a *reading.Answer) {
	if a.Counted {
		return
	}
	x.billAnswer(a, a.Total())
	x.notifyLayers(a)
}

// billAnswer adds the usage of an answer to the bill.
func (x *exchange) billAnswer(a *reading.Answer, u chat.Usage) {
	a.Counted = true
	if !a.Parallel {
		x.bill.EndCall()
	}
	if x.bill.Add(&a.By, u) {
		x.report.Capped(&a.By, &u)
	}
	x.effects.Called(&a.By, &u, &x.rounds)
}

// notifyLayers notifies the layers which provider answered, whether the client gets the answer or not: its prompt cache now holds the conversation.
// Only the first candidate's model counts, because it is called first next time; other models only answer after a failure, an escalation or a
// verification.
func (x *exchange) notifyLayers(a *reading.Answer) {
	x.rememberTurn(&a.By)
	if len(x.Found) > 0 && a.By.Model == x.Found[0].Model {
		x.Config.Pipeline.Finish(&x.Exchange, a.By.Provider, x.calls.LastKey(a.By.Provider).ID())
	}
}

// rememberTurn stores which candidate served the turn.
func (x *exchange) rememberTurn(by *policy.Resolution) {
	if !slices.ContainsFunc(x.Found, func(r policy.Resolution) bool { return r.Provider == by.Provider && r.Model == by.Model }) || x.gw == nil {
		return
	}
	x.gw.conversations.Record(&x.turn, policy.ServedBy{Provider: by.Provider, Model: by.Model, Quality: x.Intent.Quality, Tokens: x.Request.InputTokens})
}

// Requests that end before a provider is called have no row in the ledger: a client that ignores refusals may send thousands a second. They are
// counted by key, minute and reason, and the latest can be looked up.

// neverCalled reports whether the request ended, or its client disconnected, before any provider was called or a stored answer was found.
func (x *exchange) neverCalled() bool {
	to, _ := x.bill.InFlight()
	return to == nil && len(x.trace.Attempts) == 0 && len(x.bill.Calls()) == 0 && x.report.Stored == nil && x.current == nil
}

// refuse counts the request as refused, unless its client disconnected before it was read.
func (x *exchange) refuse() {
	if x.trace.Fault == nil && x.Request == nil {
		return
	}
	s := x.newSummary(x.unfinished())
	s.By = x.report.By(nil)
	r := ledger.Refusal{RequestID: x.ID, Account: x.Principal.Account, At: x.Started}
	r.Status, r.Reason = x.trace.Verdict()
	if x.Request != nil || x.Principal.Account != "" || x.Principal.Anonymous { // callers without a valid credential cannot look anything up
		r.Record = s.Record(x.pathName())
	}
	x.gw.Ledger.Refuse(r)
}

// settleStored charges only for layers' side calls, and writes the record.
func (x *exchange) settleStored(ctx context.Context, outcome string) (*report.Summary, error) {
	e := x.report.Stored
	s := x.newSummary(outcome)
	s.By, s.Usage = e.By, e.Usage // its original usage is reported, but not charged
	s.Savings, s.Saved = x.effects.SavedByCache()
	x.Cache.Hit(e, s.Saved)
	total := x.bill.Total()
	if err := x.book(ctx, s, &total); err != nil {
		return nil, err
	}
	if err := x.bill.Payer().ReadBalance(ctx); err != nil { // the answer is sent even if that fails
		x.gw.Log.Warn("a balance cannot be read", "request", x.ID, "error", err)
	}
	x.keepReasoning(x.current)
	return s, nil
}

// recordAnswered records an attempt whose answer does not end the request.
func (x *exchange) recordAnswered(a *reading.Answer, outcome string) {
	took := time.Since(x.trace.AttemptStarted)
	a.Noted = true
	x.recordAttempt(a.By, outcome, "", telemetry.Served)
	x.gw.Health.Report(policy.Result{Provider: a.By.Provider, Outcome: policy.Succeeded, Latency: took})
}

// learnTokens corrects a model's token estimates by its provider's count of the request as it was sent: for text only, and without anything that the
// gateway added.
func (x *exchange) learnTokens(a *reading.Answer) {
	u := &a.Count.Reported
	if r := x.Request; r.Op == chat.Generate && r.Doc.Stats.Opaque == 0 && a.Form == nil && u.Final {
		x.gw.meter.LearnTokens(a.By.Model, r.InputTokens, u.TotalInput())
	}
}
