package extproc

import (
	"context"
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/session"
)

// run serves the request: it finds its endpoint, admits the caller, reads and decodes the body, routes, and answers. An error that is a fault has
// not been sent to the client yet.
func (x *exchange) run(ctx context.Context, bodyless bool) error {
	if x.Head.Method == http.MethodOptions {
		x.trace.Operation = telemetry.Lookup
		r, err := x.options()
		if err != nil {
			return err
		}
		return x.reply(r)
	}
	e, err := endpoint.Find(&x.Head)
	if err != nil {
		return err
	}
	x.trace.Operation = e.Operation()
	if !x.staysOnThread(&e) {
		own := e // e itself stays on the stack
		return x.client.Leave(func() error { return x.answer(ctx, own, bodyless) })
	}
	return x.answer(ctx, e, bodyless)
}

// answer authenticates the caller and answers it.
func (x *exchange) answer(ctx context.Context, e endpoint.Endpoint, bodyless bool) error {
	if e.Class == endpoint.Open {
		return x.admitted(ctx, e, bodyless)
	}
	if ok, err := x.identifyPayer(&e); err != nil {
		return err
	} else if !ok {
		if err := x.identify(ctx); err != nil {
			return err
		}
	}
	if !x.bill.Immediate(&quota.Request{Client: x.Head.Peer, Class: quota.Generation}) {
		own := e
		return x.client.Leave(func() error { return x.admit(ctx, own, bodyless) })
	}
	return x.admit(ctx, e, bodyless)
}

// admit checks the caller's limits and answers. It runs before the body is read: a refused request uses no memory for it.
func (x *exchange) admit(ctx context.Context, e endpoint.Endpoint, bodyless bool) error {
	if err := x.limit(ctx, &e); err != nil {
		return err
	}
	return x.admitted(ctx, e, bodyless)
}

// admitted answers an admitted caller.
func (x *exchange) admitted(ctx context.Context, e endpoint.Endpoint, bodyless bool) error {
	if bodyless {
		if err := identity.BodyFault(&x.Principal, nil); err != nil {
			return err
		}
	}
	if err := x.funds.CheckSessionKey(&e); err != nil {
		return err
	}
	if e.Page {
		return x.page(ctx, bodyless)
	}
	if e.Metadata {
		return x.mcpMetadata()
	}
	if e.MCP {
		return x.mcp(ctx, bodyless)
	}
	if e.Local != nil {
		return x.answerLocally(ctx, &e, bodyless)
	}
	if err := x.parseHeaders(); err != nil {
		return err
	}
	if err := x.deferrable(&e); err != nil {
		return err
	}
	if e.Stored && x.funds.NamesSession() {
		return x.client.Leave(func() error {
			if err := x.funds.FindSession(ctx); err != nil {
				return err
			}
			return x.passthrough(ctx, bodyless)
		})
	}
	if e.Stored {
		return x.passthrough(ctx, bodyless)
	}
	if e.Realtime {
		return x.realtime(ctx)
	}
	if e.Modality != nil {
		return x.modality(ctx, e.Modality, bodyless)
	}
	if e.Compact {
		return x.compact(ctx, bodyless)
	}
	x.client.Turn()
	if err := x.read(e, bodyless); err != nil {
		return err
	}
	x.client.Turn()
	if x.dryRun && x.localModel() == nil {
		if x.mayClassify() || x.Principal.Prepaid { // the balance may have to be read from the ledger
			return x.client.Leave(func() error { return x.explain(ctx) })
		}
		return x.explain(ctx)
	}
	if x.Hints.DailyBudget > 0 || x.Hints.DIEMAvailable || x.MayNameStored() || x.funds.NamesSession() { // spending, and the owners of named resources, are read from the ledger
		return x.client.Leave(func() error { return x.routeAndCall(ctx) })
	}
	return x.routeAndCall(ctx)
}

// answerLocally answers a request to one of the gateway's own endpoints.
func (x *exchange) answerLocally(ctx context.Context, e *endpoint.Endpoint, bodyless bool) (err error) {
	c := api.Caller{
		Principal: x.Principal, Head: &x.Head, Catalog: x.Config.Resolver, Local: x.Config.Embeddings.Local, Barred: x.Config.Intents.Barred[x.Principal.Tier],
		Spread: x.Config.Spread(&x.Principal), Cognition: x.Config.Cognition, Epochs: x.Config.Epochs,
	}
	if e.MaxBody > 0 {
		if c.Body, err = x.readBodyUpTo(bodyless, e.MaxBody); err != nil {
			return err
		}
	}
	r, err := e.Local(&x.gw.api, ctx, &c)
	if err != nil {
		return err
	}
	if !r.Header.Has("x-request-id") { // a replayed answer has the id of its own request
		r.Header = append(r.Header, x.report.IDHeaders()...)
	}
	if c.Follow != nil {
		x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
		return x.reader().Send(ctx, x.client, r, c.Follow, x.gw.Draining)
	}
	return x.reply(r)
}

// compact answers POST /v1/sessions/{id}/compact: the request is replaced by one for a summary of its messages, of subsystem session_compact, and
// served like any other.
func (x *exchange) compact(ctx context.Context, bodyless bool) error {
	body, err := x.readBody(bodyless)
	if err != nil {
		return err
	}
	if x.gw.Sessions == nil {
		return fault.Newf(fault.NotFound, "this gateway keeps no sessions (sessions.mode)")
	}
	if body, err = api.Compaction(body); err != nil {
		return err
	}
	x.Hints.SessionID = strings.TrimSuffix(x.Head.Arg("/v1/sessions/"), "/compact")
	x.Hints.Subsystem = "session_compact"
	if !session.IsID(x.Hints.SessionID) {
		return api.SessionFault(session.ErrUnknown)
	}
	x.Head.Path, x.Dialect = "/v1/chat/completions", x.Config.Dialects[chat.OpenAI]
	if x.Request, err = x.Dialect.Decode(chat.Generate, header.List{{Name: "content-type", Value: header.JSON}}, "", body); err != nil {
		return err
	}
	return x.client.Leave(func() error { return x.routeAndCall(ctx) })
}
