package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/upstream"
)

// retryInvalid bills an answer that does not follow its schema, and prepares the call that tells its model what is wrong. The failure is of kind
// upstream.WrongForm.
func (x *exchange) retryInvalid(a *reading.Answer, j *review.Validation) *upstream.Failure {
	x.charge(a)
	x.noteAnswered(a, "schema")
	x.trace.Attempts[len(x.trace.Attempts)-1].Reason = (&upstream.Failure{Kind: upstream.WrongForm}).Reason()
	x.decided(upstream.Decision{Move: upstream.ValidationRetry, Why: "the model is told what is wrong with its answer"})
	r := &failedValidation{a: a, j: j}
	if x.failedValidation != nil && x.failedValidation.at(&a.By) {
		r.correction = x.failedValidation.correction
	}
	if len(j.Raw) > 0 {
		r.correction = append(r.correction, review.TextMessage(chat.RoleAssistant, string(j.Raw)))
	}
	r.correction = append(r.correction, review.TextMessage(chat.RoleUser, x.review.Schema.RetryPrompt(j.Choices[j.Wrong])))
	x.failedValidation = r
	x.review.Retried++
	x.review.EndTrial(&a.By)
	return &upstream.Failure{Provider: a.By.Provider, Kind: upstream.WrongForm, Cause: review.SchemaError{}}
}

// visibleEvents are the events of a held answer as the client gets them: those that came, unless the answer was repaired or several calls are
// billed.
func (x *exchange) visibleEvents(a *reading.Answer, j *review.Validation) []chat.Event {
	asCame := j.Open || a.Form == nil
	if x.bill.Answers() == 0 && (asCame || j.Unchanged(a.Form.Texts)) {
		return a.Held
	}
	events := a.Held
	if !asCame {
		events = j.Rewrite(a.Held, a.Form.Texts)
	} else {
		review.DropRaw(events)
	}
	x.reportTotalUsage(a, events)
	return events
}

// reportTotalUsage puts the usage of all calls of the request into an answer's events.
func (x *exchange) reportTotalUsage(a *reading.Answer, events []chat.Event) {
	if x.bill.Answers() > 0 {
		review.SetTotalUsage(events, a.AnswersTotal().Usage)
	}
}

// replaceAnswer makes b the request's answer. The one that it replaces is billed.
func (x *exchange) replaceAnswer(a, b *reading.Answer, jb *review.Validation) {
	if a != nil && !a.Counted {
		x.charge(a)
		x.noteAnswered(a, record.OK)
	}
	x.current = b
	if b.Form != nil {
		b.NotCacheable = x.review.SetResult(b.Form.Plan, jb)
		x.review.EmitSchema()
	}
}
