package extproc

import (
	"context"
	"errors"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Requests that are answered later (X-Bardo-Defer). Such a request is validated, authenticated, routed, and reserved for as any other, and then stored in
// place of its call. A run answers it later (deferred_run.go): the same request again, from its stored bytes, with a client that only keeps the answer.

// parseDefer reads whether the request is to be answered later.
func (x *exchange) parseDefer() (err error) {
	if x.later == nil {
		x.deferral.by, err = later.Parse(&x.View, x.gw.Deferred != nil)
	}
	return err
}

// putOff stores the request, and answers that it is going to be answered.
func (x *exchange) putOff(ctx context.Context) error {
	s := x.gw.Deferred
	if err := later.Check(&x.View, s.Encrypts()); err != nil {
		return err
	}
	owner, err := s.Owner(ctx)
	if err != nil {
		return fault.New(fault.Unavailable, "requests cannot be stored at the moment", err)
	}
	held := x.bill.Held()
	if err := x.bill.Stand(ctx, owner, x.Request.InputTokens); err != nil {
		return err
	}
	deadline := x.Started.Add(x.deferral.by)
	if err := x.funds.StandSession(ctx, deadline.Add(afterDeadline)); err != nil {
		return errors.Join(fault.New(fault.Unavailable, "requests cannot be stored at the moment", err), x.gw.Ledger.ReleaseStanding(context.WithoutCancel(ctx), x.ID))
	}
	r := deferred.Request{
		ID: x.ID, Account: x.Principal.Account, Dialect: x.Head.Dialect(), Subsystem: x.Hints.Subsystem, Prepaid: x.Principal.Prepaid, Held: held, Secret: later.IsSecret(&x.View),
		Deadline: deadline, Head: later.StoredHead(x.Head, x.Hints.SessionID), Body: x.deferral.body,
	}
	if err := s.Add(ctx, &r); err != nil {
		return errors.Join(later.NotStored(err), x.funds.FreeSession(ctx), x.gw.Ledger.ReleaseStanding(context.WithoutCancel(ctx), x.ID))
	}
	h := append(x.report.IDHeaders(), header.Field{Name: "content-type", Value: header.JSON}, header.Field{Name: "cache-control", Value: "no-store"})
	return x.reply(stream.Reply{Status: http.StatusAccepted, Header: h, Body: api.DeferredBody(r.Dialect, r.ID, "deferred", r.Deadline)})
}

// afterDeadline is how long after its time a request may still be booked, at most.
const afterDeadline = time.Hour

// deferrable refuses to answer later at an endpoint whose answers do not come later.
func (x *exchange) deferrable(e *endpoint.Endpoint) error {
	if x.deferral.by == 0 {
		return nil
	}
	return later.CheckEndpoint(&x.View, e)
}
