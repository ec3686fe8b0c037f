package extproc

import (
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/funds"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/outcome"
	"bardo.money/gateway/extproc/ranking"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/intent"
)

// exchange is the state of one client request: the view that its steps read, and the state of each step. It belongs to the goroutine that serves its
// stream; the streams of Envoy's retries only encode their attempt from it, through calls.
type exchange struct {
	request.View
	gw     *Gateway
	client stream.Client // discards everything for a deferred request's run
	trace  record.Trace  // what happened to the request
	report report.Report // headers, events and record
	funds  funds.Funds   // limits and reservation

	answerOptions
	body     upload.Body
	keyRead  auth.Reading
	calls    attempt.Writer // encodes and makes the attempts
	bill     meter.Bill     // limits, reservation, calls and charge
	deferral deferral
	ranking  ranking.Ranking // the order of its candidates
	outcome  outcome.Outcome // its attempts, answer, charge and end

	routing
	effects effects.Effects   // of the layers on the request
	native  attempt.Forwarded // the attempts that Envoy makes on the native path
	review  review.Review
	rounds  rounds.State // tool rounds, if the model may call tools of layers

	streamStarted    bool              // the head of the stream was sent
	lastRound        *reading.Answer   // the latest answer whose calls were answered inside the gateway; nil for none
	failedValidation *failedValidation // the last invalid answer; nil for none
}

// answerOptions are the client's options for the answer, from request headers.
type answerOptions struct {
	dryRun        bool // the request is only explained
	fast          bool // a cached answer is streamed without pauses
	wantsTrailers bool
}

// routing is what the routing decision found out about the request.
type routing struct {
	reading *intent.Reading // the classifier's result; nil for none
	hedgeAt int             // index in the order of the candidate that may be called beside the first; 0 for none
}

// driven reports whether the request takes the driven path. Streams need heartbeats, an error event, and failover until their first content; answers
// with a schema may need a validation retry, answers with calls of layers' tools another round, and a layer may have to see the whole answer first.
// Answers that may be discarded for their headers, calls that may be paid one by one, and requests that may be hedged are driven as well.
func (x *exchange) driven() bool {
	if x.hedgeAt > 0 || x.AwaitsConfirmation(x.Order) {
		return true
	}
	return x.Request.Op == chat.Generate && (x.Request.Stream || x.PaysFor(x.Order) || x.report.Later != nil || x.review.Schema != nil || x.review.MayReplaceAnswer() || x.WholeAnswer || x.Rounds() > 0)
}

// isDeferred reports whether the request is deferred, or is the run of a deferred one.
func (x *exchange) isDeferred() bool { return x.deferral.by > 0 || x.report.Later != nil }

// outcomeOwner is the outcome.Owner of an exchange.
type outcomeOwner exchange

// Path implements outcome.Owner.
func (o *outcomeOwner) Path() string {
	x := (*exchange)(o)
	if x.report.Stored != nil {
		return "cache"
	}
	if x.Request != nil && x.Request.Op == chat.Generate && x.driven() {
		return "driven"
	}
	return "native"
}

// Yield implements outcome.Owner.
func (o *outcomeOwner) Yield() { o.client.Turn() }

// cors returns the policy for web pages that may read the answer.
func (x *exchange) cors() cors.Policy { return cors.Policy{Origins: x.Config.Origins, Head: &x.Head} }

// deferral is the state of a request that asks to be deferred.
type deferral struct {
	by   time.Duration // deadline from now; 0: not deferred
	body []byte        // the client's body
}

// failedValidation is an answer that does not follow its schema.
type failedValidation struct {
	a          *reading.Answer
	j          *review.Validation
	correction []chat.Message // appended to the messages for the same candidate: all its failed answers, and the errors of each
}

// at reports whether to is the candidate that gave the answer.
func (r *failedValidation) at(to *policy.Resolution) bool {
	return r.a.By.Provider == to.Provider && r.a.By.Model == to.Model
}

// attemptNumber returns the number of the attempt that answers, from 1.
func (x *exchange) attemptNumber() int {
	if x.trace.Settled != nil || x.report.Stored != nil || x.outcome.Current != nil && x.outcome.Current.Counted {
		return len(x.trace.Attempts)
	}
	return len(x.trace.Attempts) + 1
}

// answerHeaders returns the headers that are known before an answer's cost is.
func (x *exchange) answerHeaders(to policy.Resolution) header.List {
	return x.report.Answer(to, x.attemptNumber())
}
