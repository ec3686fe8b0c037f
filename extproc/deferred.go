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

// Deferred requests (X-Bardo-Defer). Such a request is validated, authenticated, routed and reserved like any other, then stored instead of called. A
// run (deferred_run.go) serves it later: the same request, from its stored bytes, with a client that only stores the answer.

// parseDefer parses whether the request is deferred.
func (x *exchange) parseDefer() (err error) {
	if x.report.Later == nil {
		x.deferral.by, err = later.Parse(&x.View, x.gw.Deferred != nil)
	}
	return err
}

// acceptDeferred stores the request, and answers that it was accepted.
func (x *exchange) acceptDeferred(ctx context.Context) error {
	s := x.gw.Deferred
	if err := later.Check(&x.View, s.Encrypts()); err != nil {
		return err
	}
	owner, err := s.Owner(ctx)
	if err != nil {
		return fault.New(fault.Unavailable, "requests cannot be stored at the moment", err)
	}
	held := x.bill.Held()
	if err := x.bill.ConvertToStandingHold(ctx, owner, x.Request.InputTokens); err != nil {
		return err
	}
	deadline := x.Started.Add(x.deferral.by)
	if err := x.funds.StandSession(ctx, deadline.Add(afterDeadline)); err != nil {
		return errors.Join(fault.New(fault.Unavailable, "requests cannot be stored at the moment", err), x.gw.Ledger.ReleaseStandingHold(context.WithoutCancel(ctx), x.ID))
	}
	r := deferred.Request{
		ID: x.ID, Account: x.Principal.Account, Dialect: x.Head.Dialect(), Subsystem: x.Hints.Subsystem, Prepaid: x.Principal.Prepaid, Held: held, Secret: later.IsSecret(&x.View),
		Deadline: deadline, Head: later.StoredHead(x.Head, x.Hints.SessionID), Body: x.deferral.body,
	}
	if err := s.Add(ctx, &r); err != nil {
		return errors.Join(later.NotStored(err), x.funds.FreeSession(ctx), x.gw.Ledger.ReleaseStandingHold(context.WithoutCancel(ctx), x.ID))
	}
	h := append(x.report.IDHeaders(), header.Field{Name: "content-type", Value: header.JSON}, header.Field{Name: "cache-control", Value: "no-store"})
	return x.reply(stream.Reply{Status: http.StatusAccepted, Header: h, Body: api.DeferredBody(r.Dialect, r.ID, "deferred", r.Deadline)})
}

// afterDeadline is the maximum time after its deadline at which a request may still be charged.
const afterDeadline = time.Hour

// deferrable refuses X-Bardo-Defer at an endpoint that does not support it.
func (x *exchange) deferrable(e *endpoint.Endpoint) error {
	if x.deferral.by == 0 {
		return nil
	}
	return later.CheckEndpoint(&x.View, e)
}
