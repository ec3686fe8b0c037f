package funds

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

// Sessions (C-16). A request names one by the hint session_id or by its key. The session restricts its models, and the request reserves a part of the
// session's budget while it is served. A malformed session_id names no session.

// NamesSession reports whether the request names a session, so that it has to be looked up.
func (f *Funds) NamesSession() bool {
	return f.Sessions != nil && (f.Principal.Session != "" || session.IsID(f.Hints.SessionID))
}

// FindSession finds the session that the request names, after checking that its subsystem may use the key. An ended session answers nothing more, not
// even from the cache, except requests that were accepted before.
func (f *Funds) FindSession(ctx context.Context) error {
	if err := f.CheckSubsystem(); err != nil {
		return err
	}
	if !f.NamesSession() {
		return nil
	}
	if f.Hints.SessionID == "" {
		f.Hints.SessionID = f.Principal.Session
	}
	s, err := f.Sessions.Use(ctx, f.Principal.Account, f.Principal.Session, f.Hints.SessionID)
	if err != nil {
		return api.SessionFault(err)
	}
	if f.Later == nil && s.Ended(time.Now()) {
		return api.SessionFault(session.ErrEnded)
	}
	if !s.AllowsSubsystem(f.Hints.Subsystem) {
		return fault.Newf(fault.KeyRestricted, "the session is for the subsystems %s: name one of them in X-Bardo-Subsystem", strings.Join(s.Subsystems, ", "))
	}
	f.session, f.OnlyModels, f.OnlyTools = &s, s.Models, s.Tools
	if f.Hints.GolemID == "" {
		f.Hints.GolemID = s.Golem
	}
	return nil
}

// FilterBySession removes the models that the key or the session may not use.
func (f *Funds) FilterBySession() error {
	if err := f.filterByKey(); err != nil {
		return err
	}
	s := f.session
	if s == nil || len(s.Models) == 0 {
		return nil
	}
	f.Found = slices.DeleteFunc(f.Found, func(to policy.Resolution) bool { return !f.MayUse(to.Model) })
	if len(f.Found) == 0 {
		return fault.Newf(fault.KeyRestricted, "the session may use %s, and none of them serves this request", strings.Join(s.Models, ", "))
	}
	return nil
}

// MayBeSealed refuses a client-encrypted request if its session restricts the tools, since they are not visible here.
func (f *Funds) MayBeSealed() error {
	if f.OnlyTools == nil {
		return nil
	}
	return fault.Newf(fault.KeyRestricted, "the session is for certain tools, and which ones an encrypted request has cannot be seen")
}

// MayUseLocal refuses a request for the local model if its key or session may not use it. It costs nothing.
func (f *Funds) MayUseLocal(ctx context.Context) error {
	if err := f.FindSession(ctx); err != nil {
		return err
	}
	if k := &f.Principal.Scope; !k.AllowsModel(policy.ModelID(f.Request.Model)) {
		return fault.Newf(fault.KeyRestricted, "this key is for the models %s", strings.Join(k.Models, ", "))
	}
	s := f.session
	if s == nil || s.Allows(policy.ModelID(f.Request.Model)) {
		return nil
	}
	return fault.Newf(fault.KeyRestricted, "the session may not use the model %q", fault.Clip(f.Request.Model))
}

// HoldSession reserves the request's maximum cost from its session's budget, or refuses it. The run of a deferred request was admitted before.
func (f *Funds) HoldSession(ctx context.Context, maxCost policy.Micro) error {
	s := f.session
	if s == nil || f.Later != nil {
		return nil
	}
	f.hold.Release()
	if f.isExempt(f.Hints.Subsystem) {
		f.hold = nil
		return nil
	}
	hold, err := f.Sessions.Reserve(ctx, s, maxCost)
	f.hold = hold
	return api.SessionFault(err)
}

// FreeSession releases the session reservation of a request that was not deferred after all.
func (f *Funds) FreeSession(ctx context.Context) error {
	if f.session == nil {
		return nil
	}
	return f.Sessions.Free(context.WithoutCancel(ctx), f.ID)
}

// SpendSession counts the request's charge.
func (f *Funds) SpendSession(ctx context.Context, charged policy.Micro) {
	s := f.session
	if s == nil || charged == 0 {
		return
	}
	if err := f.Sessions.Spend(context.WithoutCancel(ctx), s.ID, f.ID, charged); err != nil {
		f.Logger.Error("a request's cost was not counted in its session", "request", f.ID, "error", err)
	}
}

// CheckSessionKey refuses a session's key access to the account's endpoints, and any key access outside its scope.
func (f *Funds) CheckSessionKey(e *endpoint.Endpoint) error {
	if err := f.checkEndpoint(e); err != nil {
		return err
	}
	if f.Principal.Session == "" || e.Local == nil && !e.Stored && !e.MCP {
		return nil
	}
	within := func(p string) bool { return f.Head.Path == p || strings.HasPrefix(f.Head.Path, p+"/") }
	if e.Local != nil && slices.ContainsFunc(sessionPaths, within) {
		return nil
	}
	return fault.Newf(fault.KeyRestricted, "the key of a session may generate, and read models, schemas and its session; %s takes a key of the account", fault.Clip(f.Head.Path))
}

// sessionPaths are the gateway's own endpoints that a session's key may use.
var sessionPaths = []string{"/v1/models", "/v1beta/models", "/v1/schemas", "/v1/sessions"}

// InSession reports whether the request names an existing session.
func (f *Funds) InSession() bool { return f.session != nil }

// StandSession keeps the request's session reservation until a time, for a deferred request.
func (f *Funds) StandSession(ctx context.Context, until time.Time) error {
	return f.hold.Persist(ctx, f.ID, until)
}

// ReleaseSession releases the request's session reservation.
func (f *Funds) ReleaseSession() { f.hold.Release() }
