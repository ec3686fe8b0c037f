package extproc

import (
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/funds"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/ranking"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/intent"
)

// exchange is the state of one client request: the view that its steps read, and what each step owns. It belongs to the goroutine that serves its
// stream; the streams of Envoy's retries only write their attempt from it, through calls.
type exchange struct {
	request.View
	gw     *Gateway
	client stream.Client // of a deferred request's run: nobody
	trace  record.Trace  // what happened to the request
	report report.Report // what is told of it
	funds  funds.Funds   // what it may spend

	wishes
	body     upload.Body
	keyRead  auth.Reading
	calls    attempt.Writer // writes and makes the attempts
	bill     meter.Bill     // limits, reservation, calls and charge
	deferral deferral
	ranking  ranking.Ranking // of its candidates
	later    *later.Run      // of an exchange that answers a deferred request; nil for any other

	findings
	effects effects.Effects   // of the layers
	native  attempt.Forwarded // of a request on the native path
	review  review.Review
	rounds  rounds.State // of a request whose model may call tools of layers

	streams          bool              // the client has got the head of a stream
	current          *reading.Answer   // the last one that began; nil for none
	lastRound        *reading.Answer   // the latest one whose calls were answered inside the gateway; nil for none
	failedValidation *failedValidation // the last invalid answer; nil for none
	upstream         *fault.Fault      // why no candidate answered; coalesced requests get it, too
	kept             attestation.Kept  // the proof of the answer that is being sent
}

// wishes are what a client says of the answer in headers of its own.
type wishes struct {
	dry           bool // the request is only explained
	fast          bool // a cached answer is streamed without pauses
	wantsTrailers bool
}

// findings are what the routing decision found out about the request.
type findings struct {
	reading *intent.Reading   // of the classifier; nil for none
	turn    conversation.Turn // of a conversation whose model the gateway chooses
}

// driven reports whether the request takes the driven path: streams need heartbeats, an error event, and failover until their first content;
// answers with a schema may need a validation retry, those with calls of layers' tools another round, and a layer may have to see the whole
// answer first. So do requests whose answers may be discarded for their headers, and those whose calls may have to be paid for one by one.
func (x *exchange) driven() bool {
	if x.AwaitsConfirmation(x.Order) {
		return true
	}
	return x.Request.Op == chat.Generate && (x.Request.Stream || x.PaysFor(x.Order) || x.later != nil || x.review.Schema != nil || x.review.MayReplaceAnswer() || x.WholeAnswer || x.Rounds() > 0)
}

// isDeferred reports whether the request is answered later, or is such a one that is answered now.
func (x *exchange) isDeferred() bool { return x.deferral.by > 0 || x.later != nil }

// pathName is the path that served the request, for its record.
func (x *exchange) pathName() string {
	if x.report.Stored != nil {
		return "cache"
	}
	if x.Request != nil && x.Request.Op == chat.Generate && x.driven() {
		return "driven"
	}
	return "native"
}

// cors is which web pages may read the answer.
func (x *exchange) cors() cors.Policy { return cors.Policy{Origins: x.Config.Origins, Head: &x.Head} }

// deferral is what a request that is to be answered later has besides those of others.
type deferral struct {
	by   time.Duration // from now; 0: the request is answered now
	body []byte        // the client's
}

// failedValidation is an answer that does not follow its schema.
type failedValidation struct {
	a          *reading.Answer
	j          *review.Validation
	correction []chat.Message // put behind the messages for the same candidate: all its failed answers, and what is wrong with each
}

// at reports whether it is an answer of a candidate.
func (r *failedValidation) at(to *policy.Resolution) bool {
	return r.a.By.Provider == to.Provider && r.a.By.Model == to.Model
}

// attemptNumber counts the attempts up to the one that answers.
func (x *exchange) attemptNumber() int {
	if x.trace.Settled != nil || x.report.Stored != nil || x.current != nil && x.current.Counted {
		return len(x.trace.Attempts)
	}
	return len(x.trace.Attempts) + 1
}

// answerHeaders are known before an answer's cost is.
func (x *exchange) answerHeaders(to policy.Resolution) header.List {
	return x.report.Answer(to, x.attemptNumber())
}
