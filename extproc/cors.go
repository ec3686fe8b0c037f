package extproc

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Web pages of other origins (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol). A browser lets a page of a listed origin send
// requests and read their answers. Keys go in headers that the page sets, so no answer allows credentials of the browser's own.

// anyOrigin in Runtime.Origins lists all of them. It lets nobody in without a key: see origin.Rule.
const anyOrigin = "*"

// crossOrigin is what answers to the request say to its browser; nil where it comes from no listed origin.
func (x *exchange) crossOrigin() header.List {
	from := x.head.Header.Get("origin")
	if from == "" {
		return nil
	}
	allowed := ""
	for _, o := range x.rt.Origins {
		switch {
		case strings.EqualFold(o, from):
			allowed = from
		case o == anyOrigin && allowed == "":
			allowed = anyOrigin
		}
	}
	if allowed == "" {
		return nil
	}
	return header.List{{Name: "access-control-allow-origin", Value: allowed}}
}

// shared adds to an answer what its browser has to know: whose page may read it, and which of its headers.
func (x *exchange) shared(h header.List) header.List {
	more := x.crossOrigin()
	if more == nil {
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
	h = append(append(h, more...), header.Field{Name: "vary", Value: vary})
	if len(exposed) > 0 {
		h = append(h, header.Field{Name: "access-control-expose-headers", Value: strings.Join(exposed, ", ")})
	}
	return h
}

// isExposed reports whether a page may read a header of an answer; browsers show it a few common ones in any case.
func isExposed(name string) bool {
	switch name {
	case "request-id", "x-request-id", "retry-after", "x-should-retry", "allow":
		return true
	}
	return strings.HasPrefix(name, "x-bardo-") || strings.HasPrefix(name, "x-ratelimit-")
}

// sharing is a client whose answers a page of another origin may read.
type sharing struct {
	stream.Client
	x *exchange
}

// Reply implements stream.Client.
func (d sharing) Reply(r stream.Reply) error {
	r.Header = d.x.shared(r.Header)
	return d.Client.Reply(r)
}

// Answer implements stream.Client.
func (d sharing) Answer(r stream.Reply, remove []string) error {
	r.Header = d.x.shared(r.Header)
	return d.Client.Answer(r, remove)
}

// StreamHead implements stream.Client.
func (d sharing) StreamHead(status int, h header.List) error {
	return d.Client.StreamHead(status, d.x.shared(h))
}

// Answers to OPTIONS.
const (
	preflightAge   = "7200" // seconds, the most that browsers keep it for
	longestRequest = 4096   // of a list of header names
)

// options answers OPTIONS: a browser that asks whether a page may send a request, or a program that asks for the methods of a path. No
// key is needed, and no provider is called.
func (x *exchange) options() (stream.Reply, error) {
	methods := allowed(x.head.Path)
	if methods == "" {
		_, err := findEndpoint(&x.head)
		return stream.Reply{}, err
	}
	from, method := x.head.Header.Get("origin"), x.head.Header.Get("access-control-request-method")
	r := stream.Reply{Status: http.StatusNoContent, Header: append(x.idHeaders(), header.Field{Name: "allow", Value: methods + ", OPTIONS"})}
	if from == "" || method == "" {
		return r, nil
	}
	if x.crossOrigin() == nil {
		f := fault.Newf(fault.InvalidRequest, "pages of the origin %q may not use this gateway: its operator can list the origin in listen.cors_origins", fault.Clip(from))
		f.Status = http.StatusForbidden
		return stream.Reply{}, f
	}
	r.Header = append(r.Header,
		header.Field{Name: "access-control-allow-methods", Value: methods},
		header.Field{Name: "access-control-max-age", Value: preflightAge},
		header.Field{Name: "vary", Value: "Access-Control-Request-Method, Access-Control-Request-Headers"},
	)
	if names := x.head.Header.Get("access-control-request-headers"); isNames(names) {
		r.Header = append(r.Header, header.Field{Name: "access-control-allow-headers", Value: names})
	}
	if x.head.Header.Get("access-control-request-private-network") == "true" {
		r.Header = append(r.Header, header.Field{Name: "access-control-allow-private-network", Value: "true"})
	}
	return r, nil
}

// isNames reports whether a text is a list of header names, which may be said back.
func isNames(s string) bool {
	const name = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && len(s) <= longestRequest && strings.Trim(s, name+", ") == ""
}
