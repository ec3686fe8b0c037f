package extproc

import (
	"context"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/session"
)

// What a session (C-16) means to a request that names it, by the hint session_id or by its key: the models that it may use, and the part of the session's
// budget that it holds while it is served. A session_id of another form names no session.

// namesSession reports whether the request names a session, so that it has to be looked up.
func (x *exchange) namesSession() bool {
	return x.gw.Sessions != nil && (x.Principal.Session != "" || session.Is(x.Hints.SessionID))
}

// findSession finds the session that the request names.
func (x *exchange) findSession(ctx context.Context) error {
	if !x.namesSession() {
		return nil
	}
	if x.Hints.SessionID == "" {
		x.Hints.SessionID = x.Principal.Session
	}
	s, err := x.gw.Sessions.Use(ctx, x.Principal.Account, x.Principal.Session, x.Hints.SessionID)
	if err != nil {
		return api.SessionFault(err)
	}
	x.session.session, x.OnlyModels = &s, s.Models
	if x.Hints.GolemID == "" {
		x.Hints.GolemID = s.Golem
	}
	return nil
}

// filterBySession leaves out the models that the session may not use.
func (x *exchange) filterBySession() error {
	s := x.session.session
	if s == nil || len(s.Models) == 0 {
		return nil
	}
	x.Found = slices.DeleteFunc(x.Found, func(to policy.Resolution) bool { return !x.MayUse(to.Model) })
	if len(x.Found) == 0 {
		return fault.Newf(fault.KeyRestricted, "the session may use %s, and none of them serves this request", strings.Join(s.Models, ", "))
	}
	return nil
}

// mayUseLocal refuses a request for the local model whose session may use others alone. It costs nothing.
func (x *exchange) mayUseLocal(ctx context.Context) error {
	if err := x.findSession(ctx); err != nil {
		return err
	}
	s := x.session.session
	if s == nil || s.Allows(policy.ModelID(x.Request.Model)) && !s.Over(time.Now()) {
		return nil
	}
	return fault.Newf(fault.KeyRestricted, "the session is over, or may not use the model %q", fault.Clip(x.Request.Model))
}

// holdSession holds the request's highest cost of its session's budget, or refuses it. A run of a deferred request was admitted before.
func (x *exchange) holdSession(ctx context.Context, most policy.Micro) error {
	s := x.session.session
	if s == nil || x.later != nil {
		return nil
	}
	x.session.hold.Release()
	hold, err := x.gw.Sessions.Reserve(ctx, s, most)
	x.session.hold = hold
	return api.SessionFault(err)
}

// freeSession keeps nothing of the session's budget for a request that is not answered later after all.
func (x *exchange) freeSession(ctx context.Context) error {
	if x.session.session == nil {
		return nil
	}
	return x.gw.Sessions.Free(context.WithoutCancel(ctx), x.ID)
}

// spendSession counts what the request was charged.
func (x *exchange) spendSession(ctx context.Context, charged policy.Micro) {
	s := x.session.session
	if s == nil || charged == 0 {
		return
	}
	if err := x.gw.Sessions.Spend(context.WithoutCancel(ctx), s.ID, x.ID, charged); err != nil {
		x.gw.Log.Error("a request's cost was not counted in its session", "request", x.ID, "error", err)
	}
}

// boundToSession refuses a session's key what belongs to the account.
func (x *exchange) boundToSession(e *endpoint.Endpoint) error {
	if x.Principal.Session == "" || e.Local == nil && !e.Stored {
		return nil
	}
	within := func(p string) bool { return x.Head.Path == p || strings.HasPrefix(x.Head.Path, p+"/") }
	if e.Local != nil && slices.ContainsFunc(sessionPaths, within) {
		return nil
	}
	return fault.Newf(fault.KeyRestricted, "the key of a session may generate, and read models, schemas and its session; %s takes a key of the account", fault.Clip(x.Head.Path))
}

// sessionPaths are the gateway's own endpoints that a session's key may use.
var sessionPaths = []string{"/v1/models", "/v1beta/models", "/v1/schemas", "/v1/sessions"}
