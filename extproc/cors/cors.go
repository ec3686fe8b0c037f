// Package cors implements the rules for web pages of other origins (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol). A browser lets a page
// of a listed origin send requests and read their answers. Keys are sent in headers that the page sets, so no answer allows the browser's own
// credentials.
package cors

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// anyOrigin in Policy.Origins allows all origins. It does not replace a key: see origin.Rule.
const anyOrigin = "*"

// Policy decides which pages may read the answer to one request.
type Policy struct {
	Origins []string // listed by the operator
	Head    *stream.Head
}

// Allows reports whether the request comes from a page of a listed origin.
func (p Policy) Allows() bool { return p.allowOrigin() != "" }

// allowOrigin returns the access-control-allow-origin of the answer; "" if the request comes from no listed origin.
func (p Policy) allowOrigin() string {
	from := p.Head.Header.Get("origin")
	if from == "" {
		return ""
	}
	allowed := ""
	for _, o := range p.Origins {
		switch {
		case strings.EqualFold(o, from):
			allowed = from
		case o == anyOrigin && allowed == "":
			allowed = anyOrigin
		}
	}
	return allowed
}

// AddHeaders adds the CORS headers to an answer: the origin that may read it, and the exposed headers.
func (p Policy) AddHeaders(h header.List) header.List {
	allowed := p.allowOrigin()
	if allowed == "" {
		return h
	}
	var exposed []string
	for _, f := range h {
		if isExposed(f.Name) {
			exposed = append(exposed, f.Name)
		}
	}
	vary := "Origin"
	if other := h.Get("vary"); other != "" {
		h = slices.DeleteFunc(h, func(f header.Field) bool { return f.Name == "vary" })
		vary += ", " + other
	}
	h = append(h, header.Field{Name: "access-control-allow-origin", Value: allowed}, header.Field{Name: "vary", Value: vary})
	if len(exposed) > 0 {
		h = append(h, header.Field{Name: "access-control-expose-headers", Value: strings.Join(exposed, ", ")})
	}
	return h
}

// isExposed reports whether a page may read a header of an answer; browsers expose a few common ones anyway.
func isExposed(name string) bool {
	switch name {
	case "request-id", "x-request-id", "retry-after", "x-should-retry", "allow", "x-remaining-tokens", "mcp-session-id", "www-authenticate":
		return true
	}
	return strings.HasPrefix(name, "x-bardo-") || strings.HasPrefix(name, "x-ratelimit-")
}

// Client is a client whose answers a page of another origin may read.
type Client struct {
	stream.Client

	Policy Policy
}

// Reply implements stream.Client.
func (c Client) Reply(r stream.Reply) error {
	r.Header = c.Policy.AddHeaders(r.Header)
	return c.Client.Reply(r)
}

// Answer implements stream.Client.
func (c Client) Answer(r stream.Reply, remove []string) error {
	r.Header = c.Policy.AddHeaders(r.Header)
	return c.Client.Answer(r, remove)
}

// StreamHead implements stream.Client.
func (c Client) StreamHead(status int, h header.List) error {
	return c.Client.StreamHead(status, c.Policy.AddHeaders(h))
}

// Answers to OPTIONS.
const (
	preflightAge   = "7200" // seconds, the maximum in browsers
	longestRequest = 4096   // of a list of header names
)

// Options answers OPTIONS: a browser's preflight request, or a program that asks for the methods of a path. No key is needed, and no provider is
// called. methods are those of the path, as in an Allow header; h has the common headers.
func (p Policy) Options(methods string, h header.List) (stream.Reply, error) {
	from, method := p.Head.Header.Get("origin"), p.Head.Header.Get("access-control-request-method")
	r := stream.Reply{Status: http.StatusNoContent, Header: append(h, header.Field{Name: "allow", Value: methods + ", OPTIONS"})}
	if from == "" || method == "" {
		return r, nil
	}
	if !p.Allows() {
		f := fault.Newf(fault.InvalidRequest, "pages of the origin %q may not use this gateway: its operator can list the origin in listen.cors_origins", fault.Clip(from))
		f.Status = http.StatusForbidden
		return stream.Reply{}, f
	}
	r.Header = append(r.Header,
		header.Field{Name: "access-control-allow-methods", Value: methods},
		header.Field{Name: "access-control-max-age", Value: preflightAge},
		header.Field{Name: "vary", Value: "Access-Control-Request-Method, Access-Control-Request-Headers"},
	)
	if names := p.Head.Header.Get("access-control-request-headers"); isNames(names) {
		r.Header = append(r.Header, header.Field{Name: "access-control-allow-headers", Value: names})
	}
	if p.Head.Header.Get("access-control-request-private-network") == "true" {
		r.Header = append(r.Header, header.Field{Name: "access-control-allow-private-network", Value: "true"})
	}
	return r, nil
}

// isNames reports whether a text is a list of header names, which may be echoed.
func isNames(s string) bool {
	const name = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && len(s) <= longestRequest && strings.Trim(s, name+", ") == ""
}
