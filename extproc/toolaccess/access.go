// Package toolaccess decides who may use the gateway's MCP servers, and which of their tools.
package toolaccess

import (
	"context"
	"errors"

	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/oauth"
)

// Tokens verify access tokens of clients. Safe for concurrent use.
type Tokens interface {
	// Verify returns who sent a request to one of the resources; ok is false if the request has no token of the configured issuer. The error is a fault.
	Verify(ctx context.Context, r auth.Request, resources ...string) (p policy.Principal, ok bool, err error)
}

// Check returns why the caller of a request may not use any MCP server: it may not call tools, or it is a web page that may not call this gateway.
func Check(v *request.View) error {
	switch {
	case len(v.Config.MCP) == 0:
		return fault.Newf(fault.NotFound, "this gateway has no MCP servers (mcp.servers)")
	case v.Config.Firewall.Broken != nil:
		return v.Config.Firewall.Broken
	case v.Principal.Anonymous && v.Config.Keyless != runtime.KeylessAnyone:
		return Challenged(v, auth.Missing(v.Head.Header))
	}
	page := cors.Policy{Origins: v.Config.Origins, Head: &v.Head}
	if o := v.Head.Origin(); o.Origin != "" && !page.Allows() {
		if why := v.Config.Known.Refuses(o); why != "" { // the protocol requires it, also of requests with a credential
			return fault.Newf(fault.KeyRestricted, "this request is not accepted: %s. Its operator can list the origin in listen.cors_origins", why)
		}
	}
	return auth.MayGenerate(v.Principal)
}

// Challenged adds to an authentication error of a request to MCP servers where its client can log in (RFC 9728). Other errors are unchanged.
func Challenged(v *request.View, err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if v.Config.MCPAuth == nil || !ok {
		return err
	}
	code := "invalid_token"
	switch {
	case errors.Is(err, oauth.ErrScope):
		code = "insufficient_scope"
	case f.Kind != fault.InvalidAPIKey:
		return err
	case !auth.Sent(v.Head.Header):
		code = ""
	}
	return fault.New(f.Kind, f.Public, &meter.Challenge{Header: header.List{{Name: "www-authenticate", Value: v.Config.MCPAuth.Challenge(v.Head.Path, code)}}})
}

// Metadata returns the document about an MCP endpoint that clients need to log in (RFC 9728).
func Metadata(v *request.View) ([]byte, error) {
	if v.Config.MCPAuth == nil {
		return nil, fault.Newf(fault.NotFound, "clients of this gateway send keys: it has no authorization server (mcp.oauth)")
	}
	return v.Config.MCPAuth.Metadata(mcp.Endpoint(v.Head.Path))
}
