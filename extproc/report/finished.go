package report

import (
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// By returns the candidate that the request's record names: the one that answered the client (nil for none), else the last whose answer is billed,
// else the one that was tried last, else the first of the order.
func (r *Report) By(answered *policy.Resolution) policy.Resolution {
	switch {
	case answered != nil:
		return *answered
	case r.Bill.Answers() > 0:
		return r.lastBilled()
	case len(r.Order) > 0:
		return r.triedLast()
	}
	return policy.Resolution{}
}

// lastBilled returns the candidate of the last call on the bill, side calls excluded.
func (r *Report) lastBilled() (to policy.Resolution) {
	for _, c := range r.Bill.Calls() {
		if c.Side == "" {
			to = c.To
		}
	}
	return to
}

// triedLast returns the candidate of the last attempt; the first of the order before there is one.
func (r *Report) triedLast() policy.Resolution {
	last := r.Trace.Last()
	if last == nil {
		return r.Order[0]
	}
	for i := range r.Order {
		if r.Order[i].Provider == last.Provider && r.Order[i].Model == last.Model {
			return r.Order[i]
		}
	}
	return policy.Resolution{Provider: last.Provider, Model: last.Model}
}

// Finished returns the request as shown in the feed of finished requests.
func (r *Report) Finished() record.Finished {
	f := record.Finished{ID: r.ID, Account: r.Principal.Account, Dialect: r.Head.Dialect(), Subsystem: r.Hints.Subsystem}
	f.Parent, f.Layers = record.ValidTraceParent(r.Header.Get(record.TraceParent)), r.layerRuns()
	if r.Request != nil {
		f.Dialect, f.Stream, f.RequestedModel = r.Request.Dialect, r.Request.Stream, fault.Clip(r.RequestedModel())
	}
	return f
}

// layerRuns returns the runs of the layers, without notes that are not known yet and without content: no note has any.
func (r *Report) layerRuns() []record.LayerRun {
	runs := make([]record.LayerRun, len(r.Log))
	for i := range r.Log {
		e := &r.Log[i]
		runs[i] = record.LayerRun{
			Layer: e.Layer, Note: e.Note, TimedOut: e.TimedOut, Saved: e.Saved, Interval: record.Interval{From: e.Began.Sub(r.Started), Took: e.Took},
		}
	}
	return runs
}
