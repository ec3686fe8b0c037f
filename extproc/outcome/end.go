package outcome

import (
	"context"

	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy/ledger"
)

// Finish settles a request that was not settled yet, as after a client disconnect, and reports its end.
func (o *Outcome) Finish() {
	if o.Later.Interrupted(o.Trace) {
		o.Bill.Release()
		o.Metrics.ExchangeEnded()
		return
	}
	o.settleUnfinished()
	o.Bill.Release()
	if o.Later.RunsAgain(o.Trace, len(o.Bill.Calls())) { // the last run is counted instead
		o.Metrics.ExchangeEnded()
		return
	}
	o.count()
}

// settleUnfinished settles a request that was not answered, or whose client disconnected, if it is not settled yet.
func (o *Outcome) settleUnfinished() {
	switch {
	case o.Trace.Settled != nil || o.Trace.Unbilled != nil || !o.Trace.Operation.Metered() || o.Later.RunsAgain(o.Trace, len(o.Bill.Calls())):
		return
	case o.neverCalled():
		o.refuse()
		return
	case o.Request == nil:
		return
	}
	if _, err := o.Settle(context.Background(), o.partial(), o.unfinished()); err != nil {
		o.Logger.Error("a request that ended early was not charged", "request", o.ID, "error", err)
	}
}

// partial returns the incomplete answer; nil for none.
func (o *Outcome) partial() *reading.Answer {
	if o.Trace.Fault != nil {
		return nil
	}
	return o.Current
}

// unfinished returns the outcome of a request that was not settled when it ended.
func (o *Outcome) unfinished() string {
	switch {
	case o.Trace.Fault != nil:
		return record.Failed
	case o.Current != nil && o.Current.Content || o.Bill.Answers() > 0:
		return record.Cancelled
	}
	return record.Disconnected
}

// count reports the end of the request to each sink.
func (o *Outcome) count() {
	var r telemetry.Request
	if o.Request != nil {
		r.Model, r.Streamed = o.Request.Model, o.Request.Stream
	}
	t := o.Trace
	t.Measure(&r, o.Started, len(o.Bill.Calls()) > 0)
	for i := range o.Log {
		o.Metrics.LayerDone(o.Log[i].Layer, o.Log[i].Took)
	}
	o.Over()
	o.Ended(t.Ending())
	t.Count(o.Metrics, &r)
	o.Effects.Observed(o.Governor, o.Invalid)
	if t.Cache == record.CacheMiss {
		o.Cache.Miss()
	}
	t.Publish(o.Feed, &r, o.Started, o.Finished)
	t.Log(o.Logger, o.ID, o.Principal.Account, &r)
	o.Metrics.ExchangeEnded()
}

// neverCalled reports whether the request ended, or its client disconnected, before any provider was called or a stored answer was found.
func (o *Outcome) neverCalled() bool {
	to, _ := o.Bill.InFlight()
	return to == nil && len(o.Trace.Attempts) == 0 && len(o.Bill.Calls()) == 0 && o.Stored == nil && o.Current == nil
}

// refuse counts the request as refused, unless its client disconnected before it was read. Requests that end before a provider is called have no row
// in the ledger: a client that ignores refusals may send thousands a second. They are counted by key, minute and reason, and the latest can be
// looked up.
func (o *Outcome) refuse() {
	if o.Trace.Fault == nil && o.Request == nil {
		return
	}
	s := o.newSummary(o.unfinished())
	s.By = o.By(nil)
	r := ledger.Refusal{RequestID: o.ID, Account: o.Principal.Account, At: o.Started}
	r.Status, r.Reason = o.Trace.Verdict()
	if o.Request != nil || o.Principal.Account != "" || o.Principal.Anonymous { // callers without a valid credential cannot look anything up
		r.Record = s.Record(o.Owner.Path())
	}
	o.Ledger.Refuse(r)
}
