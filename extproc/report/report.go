// Package report writes what the gateway reports about a request: the headers of its answer or error, a stream's last comment and trailers, its
// record, and its events. It decides nothing and sends nothing; it formats what the steps that serve the request have found out.
package report

import (
	"log/slog"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/telemetry"
)

// Report is the reported state of a request. The state machine that serves the request owns it, and everything that it points to. Not safe for
// concurrent use.
type Report struct {
	*request.View

	Trace  *record.Trace
	Bill   *meter.Bill
	Review *review.Review
	Calls  *attempt.Writer
	Later  *later.Run // nil unless the exchange serves a deferred request

	Stored         *cache.Entry // the answer, if it came from the cache
	DegradedAnswer []string     // what of the complete answer the client's format could not express
	FullChain      bool         // the answer has its reasoning in a separate member
	Attestation    string       // hash of the answer's token; "" for an answer that is not attested
	Task           string       // what the request is for: its tick, subsystem or kind of task

	Logger    *slog.Logger
	Metrics   *telemetry.Metrics
	Operators *event.Sink // events without an account; Review.Events has those of the request
	Plane     *cognition.Bridge

	profileEmitted bool // the profile's event was emitted
	stream         inference
}

// Reading returns how the client is shown reasoning.
func (r *Report) Reading() render.View {
	return render.View{Surface: render.SurfaceOf(r.Hints.Surface), Full: r.FullChain}
}
