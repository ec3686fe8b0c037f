package extproc

import (
	"context"
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// The driven path's part of review: an answer with a schema is sent, its model is told what is wrong with it, the schema's default takes its
// place, or the client gets an error with what came. A good answer may be compared with a second model's, or be replaced by a better tier's.

// schemaStatus is what X-Bardo-Schema says of an answer of to; "" for nothing.
func (x *exchange) schemaStatus(to *policy.Resolution) string {
	if x.stored != nil {
		return x.stored.Schema
	}
	return x.review.SchemaStatus(to)
}

// schemaHeader appends the header to those of an answer.
func (x *exchange) schemaHeader(h header.List, to *policy.Resolution) header.List {
	if word := x.schemaStatus(to); word != "" {
		h = append(h, header.Field{Name: review.HeaderSchema, Value: word})
	}
	return h
}

// failedValidation is an answer that does not follow its schema.
type failedValidation struct {
	a          *answer
	j          *review.Validation
	correction []chat.Message // put behind the messages for the same candidate: all its failed answers, and what is wrong with each
}

// at reports whether it is an answer of a candidate.
func (r *failedValidation) at(to *policy.Resolution) bool {
	return r.a.res.Provider == to.Provider && r.a.res.Model == to.Model
}

// validateSent checks an answer that the client has but for its end.
func (x *exchange) validateSent(a *answer) {
	a.notCacheable = x.review.SetResult(a.form.Plan, x.review.Validate(a.form))
	x.review.EmitSchema()
}

// retryInvalid bills an answer that does not follow its schema, and prepares the call that tells its model what is wrong. The failure is of kind
// upstream.WrongForm.
func (x *exchange) retryInvalid(a *answer, j *review.Validation) *upstream.Failure {
	x.charge(a)
	x.noteAnswered(a, "schema")
	x.trace.Attempts[len(x.trace.Attempts)-1].Reason = (&upstream.Failure{Kind: upstream.WrongForm}).Reason()
	x.decided(upstream.Decision{Move: upstream.ValidationRetry, Why: "the model is told what is wrong with its answer"})
	r := &failedValidation{a: a, j: j}
	if x.failedValidation != nil && x.failedValidation.at(&a.res) {
		r.correction = x.failedValidation.correction
	}
	if len(j.Raw) > 0 {
		r.correction = append(r.correction, review.TextMessage(chat.RoleAssistant, string(j.Raw)))
	}
	r.correction = append(r.correction, review.TextMessage(chat.RoleUser, x.review.Schema.RetryPrompt(j.Choices[j.Wrong])))
	x.failedValidation = r
	x.review.Retried++
	x.review.EndTrial(&a.res)
	return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.WrongForm, Cause: review.SchemaError{}}
}

// finishHeld ends an answer that is complete and of which the client has seen nothing. A failure of kind upstream.WrongForm says that the same
// candidate is called once more.
func (s *drivenStream) finishHeld(ctx context.Context, a *answer) (*upstream.Failure, error) {
	x := s.x
	if !a.holds {
		return nil, s.send(ctx, a)
	}
	j := x.review.ValidateHeld(a.form, a.held)
	if a.form == nil {
		return s.sendReviewed(ctx, a, j)
	}
	a.notCacheable = x.review.SetResult(a.form.Plan, j)
	switch {
	case x.review.Accepts(j):
	case x.review.Retried < x.review.SchemaRetries() && !j.Declined:
		return x.retryInvalid(a, j), nil
	default:
		return nil, s.useFallback(ctx, a, j)
	}
	x.review.EmitSchema()
	return s.sendReviewed(ctx, a, j)
}

// sendReviewed sends a good answer that was held, or another model's in its place.
func (s *drivenStream) sendReviewed(ctx context.Context, a *answer, j *review.Validation) (*upstream.Failure, error) {
	x := s.x
	if a, j = s.reconsider(ctx, a, j); a == nil {
		return nil, context.Cause(ctx)
	}
	a.release(ctx, x.visibleEvents(a, j))
	if f := a.failure(); f != nil {
		return f, nil
	}
	return nil, s.send(ctx, a)
}

// reconsider compares a good answer with another model's before the client sees it, where that is wanted. It returns the one that is sent, with
// its validation; nil when the client has disconnected.
func (s *drivenStream) reconsider(ctx context.Context, a *answer, j *review.Validation) (*answer, *review.Validation) {
	switch {
	case s.x.review.Verifies():
		return s.verify(ctx, a, j)
	case s.x.review.Escalates():
		return s.escalate(ctx, a, j)
	}
	return a, j
}

// sideAnswer gets one more answer of a candidate, by the request as v has it, and validates it. The client does not see it; its call is billed,
// as is the one that is held at the time. The client gets heartbeats meanwhile. correction is put behind the messages. The validation is nil
// where the answer has no schema. The error is that the client has disconnected.
func (s *drivenStream) sideAnswer(ctx context.Context, v *request.View, to *policy.Resolution, say []chat.Message) (*answer, *review.Validation, *upstream.Failure, error) {
	x, held := s.x, s.x.current
	x.charge(held)
	defer func() { x.current = held }()
	a, f, err := s.listen(ctx, x.newAttempt(v, to, say), func(_ context.Context, a *answer) (bool, error) { return a.ended, nil })
	if err != nil { // the client disconnected in the middle of it
		x.interrupt(x.current)
	}
	if f != nil {
		x.bill.Over()
	}
	if f != nil || err != nil {
		return nil, nil, f, err
	}
	x.charge(a)
	x.noteAnswered(a, record.OK)
	if a.form == nil {
		return a, nil, nil, nil
	}
	return a, x.review.Validate(a.form), nil, nil
}

// useFallback answers in the place of an invalid answer: with the second model's, a better tier's, the schema's default, or an error.
func (s *drivenStream) useFallback(ctx context.Context, a *answer, j *review.Validation) error {
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
	a.notCacheable = x.review.SetResult(a.form.Plan, j)
	x.current, x.review.Result.Defaulted = a, true
	x.review.EmitSchema()
	x.review.EmitSchemaFallback(review.FallbackDefault)
	x.gw.Log.Warn("an answer without its form was replaced by the form's default", "request", x.ID, "subsystem", x.Hints.Subsystem,
		"schema", x.review.Schema.Name(), "provider", string(a.res.Provider), "model", string(a.res.Model), "retries", x.review.Retried)
	events := review.ReplaceText(a.held, text)
	x.reportTotalUsage(a, events)
	a.release(ctx, events)
	if f := a.failure(); f != nil {
		return s.fail(fault.From(f.Cause))
	}
	return s.send(ctx, a)
}

// refuseInvalid answers with an error that holds the invalid answer. The calls are billed: the models did their work.
func (s *drivenStream) refuseInvalid(ctx context.Context, a *answer, j *review.Validation) error {
	x := s.x
	a.notCacheable = x.review.SetResult(a.form.Plan, j)
	f := x.review.SchemaFault(j, x.review.Retried)
	x.current, x.trace.Fault, x.upstream = a, f, f
	x.review.EmitSchema()
	x.review.EmitSchemaFallback(review.FallbackError)
	sum, err := x.settle(context.WithoutCancel(ctx), a, record.Invalid)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun {
		return s.fail(f)
	}
	x.refused(f)
	r := x.errorReply(f)
	r.Header = sum.headers(x.schemaHeader(r.Header, &a.res))
	return s.client.Reply(r)
}

// noteAnswered notes an attempt whose answer does not end the request.
func (x *exchange) noteAnswered(a *answer, outcome string) {
	took := time.Since(x.trace.AttemptStarted)
	a.noted = true
	x.attempted(a.res, outcome, "", telemetry.Served)
	x.gw.Health.Report(policy.Result{Provider: a.res.Provider, Outcome: policy.Succeeded, Latency: took})
}

// visibleEvents are the events of a held answer as the client gets them: those that came, unless the answer was repaired or several calls are
// billed.
func (x *exchange) visibleEvents(a *answer, j *review.Validation) []chat.Event {
	asCame := j.Open || a.form == nil
	if x.bill.Answers() == 0 && (asCame || j.Unchanged(a.form.Texts)) {
		return a.held
	}
	events := a.held
	if !asCame {
		events = j.Rewrite(a.held, a.form.Texts)
	} else {
		review.DropRaw(events)
	}
	x.reportTotalUsage(a, events)
	return events
}

// reportTotalUsage puts the usage of all calls of the request into an answer's events.
func (x *exchange) reportTotalUsage(a *answer, events []chat.Event) {
	if x.bill.Answers() > 0 {
		setTotalUsage(events, x.answersWith(a).Usage)
	}
}

// byHealth sorts candidates that are called beside the request's order by health, and leaves out those that an operator disabled.
func (x *exchange) byHealth(list []policy.Resolution) []policy.Resolution {
	if len(list) == 0 {
		return nil
	}
	order, done := x.gw.Health.Plan(request.ProvidersOf(list))
	if earlier := x.endProbation; earlier != nil {
		x.endProbation = func() { earlier(); done() }
	} else {
		x.endProbation = done
	}
	return x.demoteQuarantined(request.ByHealth(list, order))
}

// verifiedStatus is what X-Bardo-Verified says; "" for nothing.
func (x *exchange) verifiedStatus() string {
	if x.stored != nil && x.stored.Verified != "" {
		return x.stored.Verified
	}
	return x.review.VerifiedStatus()
}

// checkHeaders append the results of verification and escalation.
func (x *exchange) checkHeaders(h header.List) header.List {
	if word := x.verifiedStatus(); word != "" {
		h = append(h, header.Field{Name: review.HeaderVerified, Value: word})
	}
	if word := x.escalatedStatus(); word != "" {
		h = append(h, header.Field{Name: review.HeaderEscalated, Value: word})
	}
	return x.ruleHeaders(h)
}

// verify compares a good answer with that of a second model of another family, called at the same time, and returns the stricter one; nil when
// the client has disconnected.
func (s *drivenStream) verify(ctx context.Context, a *answer, j *review.Validation) (*answer, *review.Validation) {
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
	case x.Config.Resolver.Alike(&a.res, &b.res):
		o.Skip(review.SkippedSameFamily)
	default:
		return s.compare(a, j, b, jb)
	}
	x.review.EmitVerified(&a.res)
	return a, j
}

// compare returns the one of two answers that is sent.
func (s *drivenStream) compare(a *answer, j *review.Validation, b *answer, jb *review.Validation) (*answer, *review.Validation) {
	x := s.x
	if x.review.Compare(&a.res, &b.res, j, jb) == structured.Second {
		x.replaceAnswer(a, b, jb)
		a, j = b, jb
	}
	x.review.EmitVerified(&a.res)
	return a, j
}

// replaceAnswer makes b the request's answer. The one that it replaces is billed.
func (x *exchange) replaceAnswer(a, b *answer, jb *review.Validation) {
	if a != nil && !a.counted {
		x.charge(a)
		x.noteAnswered(a, record.OK)
	}
	x.current = b
	if b.form != nil {
		b.notCacheable = x.review.SetResult(b.form.Plan, jb)
		x.review.EmitSchema()
	}
}

// withVerification puts the verification, with the values of both answers, into the JSON object that stands beside an answer.
func (x *exchange) withVerification(object []byte) []byte {
	r := x.review.VerificationRecord()
	if r == nil || !x.fullChain || len(object) == 0 || object[len(object)-1] != '}' {
		return object
	}
	for i := range x.review.Verification.Compared.Fields {
		f := &x.review.Verification.Compared.Fields[i]
		r.Fields[i].First, r.Fields[i].Second = json.RawMessage(f.First), json.RawMessage(f.Second)
	}
	b, err := json.Marshal(r)
	if err != nil {
		x.gw.Log.Error("an answer's verification cannot be written", "request", x.ID, "error", err)
		return object
	}
	object = append(object[:len(object)-1:len(object)-1], `,"verification":`...)
	return append(append(object, b...), '}')
}

// escalate calls tier T2 where a valid answer of a heartbeat of tier T1 asks for that, and returns the answer that is sent; nil when the client
// has disconnected. Where T2 fails, it is the answer of T1.
func (s *drivenStream) escalate(ctx context.Context, a *answer, j *review.Validation) (*answer, *review.Validation) {
	x, e := s.x, s.x.review.Escalation
	if j.Open || x.CallerPays(a.res.Provider) {
		return a, j
	}
	e.Reason = structured.Escalates(x.review.SchemaName(), j.Text(), x.Config.Escalation.Floor)
	if e.Reason == structured.NoEscalation || !x.affordsMore(ctx, review.Tier2) {
		return a, j
	}
	switch b, jb, err := s.callTier2(ctx, a); {
	case err != nil:
		return nil, nil
	case b != nil:
		return b, jb
	}
	a.notCacheable = true // not cached: the same request may get a better answer later
	return a, j
}

// escalateInvalid answers with tier T2 where T1 gave no valid answer, if the schema's default asks for T2. ok is false where it does not, or T2
// fails.
func (s *drivenStream) escalateInvalid(ctx context.Context, a *answer) (ok bool, err error) {
	x := s.x
	if !x.review.Escalates() || x.CallerPays(a.res.Provider) || structured.Escalates(x.review.SchemaName(), x.review.Schema.Default(), 0) == structured.NoEscalation || !x.affordsMore(ctx, review.Tier2) {
		return false, nil
	}
	x.review.Escalation.Reason = structured.Requested
	b, j, err := s.callTier2(ctx, a)
	if b == nil || err != nil {
		return false, err
	}
	b.release(ctx, x.visibleEvents(b, j))
	if r := b.refusal(); r != nil {
		return true, s.refuseAnswer(ctx, b, r)
	}
	if b.failure() != nil {
		return false, nil
	}
	return true, s.send(ctx, b)
}

// callTier2 replaces an answer of T1, which is billed, by one of tier T2; nil where T2 fails. The error is that the client has disconnected.
func (s *drivenStream) callTier2(ctx context.Context, a *answer) (*answer, *review.Validation, error) {
	x := s.x
	if !a.counted {
		x.charge(a)
		x.noteAnswered(a, record.OK)
	}
	x.current = a
	v := x.View
	v.Request = x.review.Escalation.Request
	b, j, err := s.runTier2(ctx, &v)
	if b == nil || err != nil {
		return nil, nil, err
	}
	x.Request = v.Request // its answer is given
	x.review.Escalation.From = a.res
	x.replaceAnswer(nil, b, j)
	x.review.EmitEscalated(&b.res)
	return b, j, nil
}

// runTier2 calls the candidates of tier T2, by the request as v has it, until one gives a valid answer; nil where none does. The error is that
// the client has disconnected.
func (s *drivenStream) runTier2(ctx context.Context, v *request.View) (*answer, *review.Validation, error) {
	x := s.x
	var say []chat.Message
	reasked := 0
	seq := upstream.Sequence{Candidates: x.byHealth(x.review.Escalation.Candidates), MaxRetries: x.Config.MaxRetries, Once: true}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		b, j, f, err := s.sideAnswer(ctx, v, to, say)
		switch {
		case err != nil:
			return nil, nil, err
		case f != nil:
			x.noteFailure(*to, f)
			again, ok := attempt.Amend(v, *to, f)
			d := seq.Failed(upstream.State{Failure: f, Amendable: ok}, again)
			x.decided(d)
			if d.Move == upstream.Advance {
				say = nil
			}
		case j != nil && x.review.Accepts(j):
			return b, j, nil
		case j != nil && reasked < x.review.SchemaRetries() && !j.Declined:
			reasked++
			seq.Calls++
			say = append(say, review.TextMessage(chat.RoleAssistant, string(j.Raw)), review.TextMessage(chat.RoleUser, x.review.Schema.RetryPrompt(j.Choices[j.Wrong])))
		default:
			return nil, nil, nil
		}
	}
	return nil, nil, nil
}

// escalatedStatus is what X-Bardo-Escalated says; "" for nothing.
func (x *exchange) escalatedStatus() string {
	if x.stored != nil {
		return x.stored.Escalated
	}
	return x.review.EscalatedStatus()
}
