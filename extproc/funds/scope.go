package funds

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Scope of a key beyond its limits.

// checkEndpoint refuses requests outside a key's scope: a publishable key may only generate and read models and its balance, and one that is bound to
// models or subsystems has no access to stored resources, whose model is not visible here.
func (f *Funds) checkEndpoint(e *endpoint.Endpoint) error {
	p := &f.Principal
	if p.Publishable && !f.isPublic(e) {
		return fault.Newf(fault.KeyRestricted, "a publishable key may generate, and read models and its balance: %s takes another key", fault.Clip(f.Head.Path))
	}
	if e.Stored && (len(p.Scope.Models) > 0 || len(p.Scope.Subsystems) > 0) {
		return fault.Newf(fault.KeyRestricted, "this key is bound to models or subsystems: %s takes another key", fault.Clip(f.Head.Path))
	}
	return nil
}

// publicPaths are the gateway's own endpoints that a publishable key may use.
var publicPaths = []string{"/v1/models", "/v1beta/models", "/v1/balance"}

// isPublic reports whether a publishable key may use an endpoint. It may not defer a request: it could not read the answer.
func (f *Funds) isPublic(e *endpoint.Endpoint) bool {
	within := func(p string) bool { return f.Head.Path == p || strings.HasPrefix(f.Head.Path, p+"/") }
	switch {
	case e.Stored, e.MCP, f.Head.Header.Has("x-bardo-defer"):
		return false
	case e.Local != nil:
		return slices.ContainsFunc(publicPaths, within)
	}
	return true
}

// CheckSubsystem refuses a request of a subsystem outside its key's scope.
func (f *Funds) CheckSubsystem() error {
	s := &f.Principal.Scope
	if s.AllowsSubsystem(f.Hints.Subsystem) {
		return nil
	}
	if f.Hints.Subsystem == "" {
		return fault.Newf(fault.KeyRestricted, "this key is for the subsystems %s: name one in X-Bardo-Subsystem", strings.Join(s.Subsystems, ", "))
	}
	return fault.Newf(fault.KeyRestricted, "this key is for the subsystems %s, not %s", strings.Join(s.Subsystems, ", "), fault.Clip(f.Hints.Subsystem))
}

// filterByKey removes the models that the key may not use.
func (f *Funds) filterByKey() error {
	s := &f.Principal.Scope
	if len(s.Models) == 0 {
		return nil
	}
	f.Found = slices.DeleteFunc(f.Found, func(to policy.Resolution) bool { return !s.AllowsModel(to.Model) })
	if len(f.Found) == 0 {
		return fault.Newf(fault.KeyRestricted, "this key is for the models %s, and none of them serves this request", strings.Join(s.Models, ", "))
	}
	return nil
}
