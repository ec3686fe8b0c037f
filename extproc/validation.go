package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/upstream"
)

// retryInvalid bills an answer that does not follow its schema, and prepares the call with its correction. The failure is of kind upstream.WrongForm.
func (x *exchange) retryInvalid(a *reading.Answer, j *review.Validation) *upstream.Failure {
	x.outcome.Charge(a)
	x.outcome.RecordAnswered(a, "schema")
	x.trace.Attempts[len(x.trace.Attempts)-1].Reason = (&upstream.Failure{Kind: upstream.WrongForm}).Reason()
	x.outcome.RecordDecision(upstream.Decision{Move: upstream.ValidationRetry, Why: "the answer is repeated with a description of what is wrong"})
	r := &failedValidation{a: a, j: j}
	if x.failedValidation != nil && x.failedValidation.at(&a.By) {
		r.correction = x.failedValidation.correction
	}
	if len(j.Raw) > 0 {
		r.correction = append(r.correction, review.TextMessage(chat.RoleAssistant, string(j.Raw)))
	}
	r.correction = append(r.correction, review.TextMessage(chat.RoleUser, x.review.Schema.RetryPrompt(j.Choices[j.Wrong])))
	x.failedValidation, x.outcome.Invalid = r, true
	x.review.Retried++
	x.review.EndTrial(&a.By)
	return &upstream.Failure{Provider: a.By.Provider, Kind: upstream.WrongForm, Cause: review.SchemaError{}}
}

// visibleEvents returns the events of a held answer for the client: unchanged, unless the answer was repaired or several calls are billed.
func (x *exchange) visibleEvents(a *reading.Answer, j *review.Validation) []chat.Event {
	unedited := j.Open || a.Form == nil
	if x.bill.Answers() == 0 && (unedited || j.Unchanged(a.Form.Texts)) {
		return a.Held
	}
	events := a.Held
	if !unedited {
		events = j.Rewrite(a.Held, a.Form.Texts)
	} else {
		review.DropRaw(events)
	}
	x.reportTotalUsage(a, events)
	return events
}

// reportTotalUsage sets the usage in an answer's events to that of all calls of the request.
func (x *exchange) reportTotalUsage(a *reading.Answer, events []chat.Event) {
	if x.bill.Answers() > 0 {
		review.SetTotalUsage(events, a.AnswersTotal().Usage)
	}
}

// replaceAnswer makes b the request's answer. The answer a, which it replaces, is billed.
func (x *exchange) replaceAnswer(a, b *reading.Answer, jb *review.Validation) {
	if a != nil && !a.Counted {
		x.outcome.Charge(a)
		x.outcome.RecordAnswered(a, record.OK)
	}
	x.outcome.Current = b
	if b.Form != nil {
		b.NotCacheable = x.review.SetResult(b.Form.Plan, jb)
		x.review.EmitSchema()
	}
}
