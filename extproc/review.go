package extproc

import (
	"context"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	reasons "bardo.money/gateway/policy/attestation"
)

// Review on the driven path: a held answer with a schema is sent, or retried with a correction, or replaced by the schema's default or an error. A
// valid answer may be compared with a second model's, or replaced by a better tier's.

// finishHeld ends a complete held answer, of which nothing was sent. A failure of kind upstream.WrongForm means that the same candidate is called
// once more.
func (s *drivenStream) finishHeld(ctx context.Context, a *reading.Answer) (*upstream.Failure, error) {
	x := s.x
	if !a.Holds {
		return nil, s.send(ctx, a)
	}
	j := x.review.ValidateHeld(a.Form, a.Held)
	if a.Form == nil {
		return s.sendReviewed(ctx, a, j)
	}
	a.NotCacheable = x.review.SetResult(a.Form.Plan, j)
	if x.review.Accepts(j) {
		x.review.EmitSchema()
		return s.sendReviewed(ctx, a, j)
	}
	x.outcome.VoidProof(ctx, a, reasons.BadSchema)
	if x.review.Retried < x.review.SchemaRetries() && !j.Declined {
		return x.retryInvalid(a, j), nil
	}
	return nil, s.useFallback(ctx, a, j)
}

// sendReviewed sends a valid held answer, or the answer of another model that replaces it.
func (s *drivenStream) sendReviewed(ctx context.Context, a *reading.Answer, j *review.Validation) (*upstream.Failure, error) {
	x := s.x
	if a, j = s.reconsider(ctx, a, j); a == nil {
		return nil, context.Cause(ctx)
	}
	a.Release(ctx, x.visibleEvents(a, j))
	if f := a.Fails(); f != nil {
		x.outcome.VoidProof(ctx, a, reasons.Unreadable)
		return f, nil
	}
	return nil, s.send(ctx, a)
}

// reconsider compares a valid answer with another model's, if configured. It returns the answer to send, with its validation; nil when the client has
// disconnected.
func (s *drivenStream) reconsider(ctx context.Context, a *reading.Answer, j *review.Validation) (*reading.Answer, *review.Validation) {
	switch {
	case s.x.review.Verifies():
		return s.verify(ctx, a, j)
	case s.x.review.Escalates():
		return s.escalate(ctx, a, j)
	}
	return a, j
}

// sideAnswer makes one more call of a candidate with the request v, and validates the answer. The answer is not sent; its call is billed, as is that
// of the held answer. Heartbeats are sent meanwhile. correction is appended to the messages. The validation is nil if the answer has no schema. The
// error means that the client has disconnected.
func (s *drivenStream) sideAnswer(ctx context.Context, v *request.View, to *policy.Resolution, correction []chat.Message) (*reading.Answer, *review.Validation, *upstream.Failure, error) {
	x, held := s.x, s.x.outcome.Current
	x.outcome.Charge(held)
	defer func() { x.outcome.Current = held }()
	a, f, err := s.callWith(ctx, x.newAttempt(v, to, correction), func(_ context.Context, a *reading.Answer) (bool, error) { return a.Ended, nil })
	if err != nil { // the client disconnected during the call
		x.outcome.Interrupt(x.outcome.Current)
	}
	if f != nil {
		x.bill.EndCall()
	}
	if f != nil || err != nil {
		return nil, nil, f, err
	}
	x.outcome.Charge(a)
	x.outcome.RecordAnswered(a, record.OK)
	if a.Form == nil {
		return a, nil, nil, nil
	}
	j := x.review.Validate(a.Form)
	if !x.review.Accepts(j) {
		x.outcome.VoidProof(ctx, a, reasons.BadSchema)
	}
	return a, j, nil, nil
}

// useFallback replaces an invalid answer: with the verifier's, a better tier's, the schema's default, or an error.
func (s *drivenStream) useFallback(ctx context.Context, a *reading.Answer, j *review.Validation) error {
	x := s.x
	if ok, err := s.useVerifierAnswer(ctx); ok || err != nil {
		return err
	}
	if ok, err := s.escalateInvalid(ctx, a); ok || err != nil {
		return err
	}
	text := x.review.Schema.Default()
	if text == nil || x.review.Schema.Strict() {
		return s.refuseInvalid(ctx, a, j)
	}
	a.NotCacheable = x.review.SetResult(a.Form.Plan, j)
	x.outcome.Current, x.review.Result.Defaulted = a, true
	x.review.EmitSchema()
	x.review.EmitSchemaFallback(review.FallbackDefault)
	x.gw.Log.Warn("an answer without its form was replaced by the form's default", "request", x.ID, "subsystem", x.Hints.Subsystem,
		"schema", x.review.Schema.Name(), "provider", string(a.By.Provider), "model", string(a.By.Model), "retries", x.review.Retried)
	events := review.ReplaceText(a.Held, text)
	x.reportTotalUsage(a, events)
	a.Release(ctx, events)
	if f := a.Fails(); f != nil {
		return s.fail(fault.From(f.Cause))
	}
	return s.send(ctx, a)
}

// refuseInvalid answers with an error that contains the invalid answer. The calls are billed: the providers billed them.
func (s *drivenStream) refuseInvalid(ctx context.Context, a *reading.Answer, j *review.Validation) error {
	x := s.x
	a.NotCacheable = x.review.SetResult(a.Form.Plan, j)
	f := x.review.SchemaFault(j, x.review.Retried)
	x.outcome.Current, x.trace.Fault, x.outcome.Unanswered = a, f, f
	x.review.EmitSchema()
	x.review.EmitSchemaFallback(review.FallbackError)
	sum, err := x.outcome.Settle(context.WithoutCancel(ctx), a, record.Invalid)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun {
		return s.fail(f)
	}
	x.outcome.RecordRefused(f)
	r := x.report.Error(f)
	r.Header = sum.Headers(x.report.SchemaHeader(r.Header, &a.By))
	return s.x.client.Reply(r)
}

// verify compares a valid answer with that of a model of another family, called concurrently, and returns the stricter one; nil when the client has
// disconnected.
func (s *drivenStream) verify(ctx context.Context, a *reading.Answer, j *review.Validation) (*reading.Answer, *review.Validation) {
	x, o := s.x, s.x.review.Verification
	b, jb, err := s.verifierAnswer(ctx)
	if err != nil {
		return nil, nil
	}
	o.By = &o.Verifier
	switch {
	case b == nil:
		o.Skip(review.SkippedFailed)
	case j.Open || jb.Open:
		o.Skip(review.SkippedNoAnswer)
	case x.Config.Resolver.SameFamily(&a.By, &b.By):
		o.Skip(review.SkippedSameFamily)
	default:
		return s.compare(a, j, b, jb)
	}
	x.review.EmitVerified(&a.By)
	return a, j
}

// compare returns the answer to send.
func (s *drivenStream) compare(a *reading.Answer, j *review.Validation, b *reading.Answer, jb *review.Validation) (*reading.Answer, *review.Validation) {
	x := s.x
	if x.review.Compare(&a.By, &b.By, j, jb) == structured.Second {
		x.replaceAnswer(a, b, jb)
		a, j = b, jb
	}
	x.review.EmitVerified(&a.By)
	return a, j
}

// escalate calls tier T2 if a valid answer of a T1 heartbeat asks for it, and returns the answer to send; nil when the client has disconnected. If T2
// fails, that is T1's answer.
func (s *drivenStream) escalate(ctx context.Context, a *reading.Answer, j *review.Validation) (*reading.Answer, *review.Validation) {
	x, e := s.x, s.x.review.Escalation
	if j.Open || x.CallerPays(a.By.Provider) {
		return a, j
	}
	e.Reason = structured.Escalates(x.review.SchemaName(), j.Text(), x.Config.Escalation.Floor)
	if e.Reason == structured.NoEscalation || !x.funds.AffordsMore(ctx, review.Tier2) {
		return a, j
	}
	switch b, jb, err := s.callTier2(ctx, a); {
	case err != nil:
		return nil, nil
	case b != nil:
		return b, jb
	}
	a.NotCacheable = true // the same request may get a better answer later
	return a, j
}

// escalateInvalid answers with tier T2 if T1 gave no valid answer and the schema's default asks for T2. ok is false if it does not, or T2 fails.
func (s *drivenStream) escalateInvalid(ctx context.Context, a *reading.Answer) (ok bool, err error) {
	x := s.x
	if !x.review.Escalates() || x.CallerPays(a.By.Provider) || structured.Escalates(x.review.SchemaName(), x.review.Schema.Default(), 0) == structured.NoEscalation || !x.funds.AffordsMore(ctx, review.Tier2) {
		return false, nil
	}
	x.review.Escalation.Reason = structured.Requested
	b, j, err := s.callTier2(ctx, a)
	if b == nil || err != nil {
		return false, err
	}
	b.Release(ctx, x.visibleEvents(b, j))
	if r := b.RefusedBy(); r != nil {
		return true, s.refuseAnswer(ctx, b, r)
	}
	if b.Fails() != nil {
		return false, nil
	}
	return true, s.send(ctx, b)
}

// callTier2 replaces T1's answer, which is billed, by T2's; nil if T2 fails. The error means that the client has disconnected.
func (s *drivenStream) callTier2(ctx context.Context, a *reading.Answer) (*reading.Answer, *review.Validation, error) {
	x := s.x
	if !a.Counted {
		x.outcome.Charge(a)
		x.outcome.RecordAnswered(a, record.OK)
	}
	x.outcome.Current = a
	v := x.View
	v.Request = x.review.Escalation.Request
	b, j, err := s.runTier2(ctx, &v)
	if b == nil || err != nil {
		return nil, nil, err
	}
	x.Request = v.Request // the answer is encoded for this request
	x.review.Escalation.From = a.By
	x.replaceAnswer(nil, b, j)
	x.review.EmitEscalated(&b.By)
	return b, j, nil
}

// runTier2 calls the candidates of tier T2 with the request v, until one gives a valid answer; nil if none does. The error means that the client has
// disconnected.
func (s *drivenStream) runTier2(ctx context.Context, v *request.View) (*reading.Answer, *review.Validation, error) {
	x := s.x
	var correction []chat.Message
	retries := 0
	seq := upstream.Sequence{Candidates: x.ranking.RankAdditional(x.review.Escalation.Candidates), MaxRetries: x.Config.MaxRetries, Once: true}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		b, j, f, err := s.sideAnswer(ctx, v, to, correction)
		switch {
		case err != nil:
			return nil, nil, err
		case f != nil:
			x.outcome.RecordFailure(*to, f)
			again, ok := attempt.WithoutRefused(v, *to, f)
			d := seq.Failed(upstream.State{Failure: f, Amendable: ok}, again)
			x.outcome.RecordDecision(d)
			if d.Move == upstream.Advance {
				correction = nil
			}
		case j != nil && x.review.Accepts(j):
			return b, j, nil
		case j != nil && retries < x.review.SchemaRetries() && !j.Declined:
			retries++
			seq.Calls++
			correction = append(correction, review.TextMessage(chat.RoleAssistant, string(j.Raw)), review.TextMessage(chat.RoleUser, x.review.Schema.RetryPrompt(j.Choices[j.Wrong])))
		default:
			return nil, nil, nil
		}
	}
	return nil, nil, nil
}
