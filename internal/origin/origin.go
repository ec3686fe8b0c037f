// Package origin distinguishes requests of programs from those that a foreign web page makes a browser send. Where no credential is required, only
// this check keeps such a page from using a listener that only this machine or network can reach. It knows no HTTP library.
package origin

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Request has the headers that the check reads. Browsers do not let a page set any of them.
type Request struct {
	Host   string // with or without port
	Origin string // the Origin header; "" without one, as programs and same-origin GETs of browsers send
	Site   string // the Sec-Fetch-Site header; "" without one
}

// Rule lists the hosts of a listener. A name that a foreign DNS resolves to it (DNS rebinding) is not among them.
type Rule struct {
	Hosts []string // names and addresses besides loopback's, without port
	AnyIP bool     // any IP address is accepted: rebinding needs a name
	Pages []string // origins whose pages are trusted like local programs; "*" is not supported
}

// Refuses returns the reason why a request may come from a foreign page; "" if it cannot.
func (r *Rule) Refuses(q Request) string {
	host := Hostname(q.Host)
	if !r.allowedHost(host) {
		return fmt.Sprintf("the host %q is not one of this gateway's", cut(q.Host))
	}
	if q.Origin != "" && r.trusts(q.Origin) {
		return ""
	}
	if q.Origin != "" && !r.ours(q.Origin, host) {
		return fmt.Sprintf("a page of the origin %q made it", cut(q.Origin))
	}
	if strings.EqualFold(q.Site, "cross-site") {
		return "a page of another site made it"
	}
	return ""
}

// trusts reports whether the pages of an origin were listed.
func (r *Rule) trusts(origin string) bool {
	for _, page := range r.Pages {
		if strings.EqualFold(page, origin) {
			return true
		}
	}
	return false
}

// allowedHost reports whether a host is one of the listener's.
func (r *Rule) allowedHost(host string) bool {
	if r.named(host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil && r.AnyIP
}

// named reports whether a host is loopback's or one of the rule's own.
func (r *Rule) named(host string) bool {
	if IsLoopback(host) {
		return true
	}
	for _, own := range r.Hosts {
		if own != "" && strings.EqualFold(host, own) {
			return true
		}
	}
	return false
}

// ours reports whether the page's origin is a host of the listener's, or the one that the request is sent to.
func (r *Rule) ours(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil {
		return false // "null" is the origin of files, sandboxes and redirects
	}
	from := Hostname(u.Host)
	return r.named(from) || strings.EqualFold(from, host)
}

// IsLoopback reports whether a host without port is a loopback address, or localhost.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Hostname returns a host without its port, an address's brackets and a name's trailing dot; "" if it is malformed.
func Hostname(hostport string) string {
	host := hostport
	if strings.HasPrefix(host, "[") {
		in, after, ok := strings.Cut(host[1:], "]")
		if !ok || after != "" && after[0] != ':' {
			return ""
		}
		return in
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.TrimSuffix(host, ".")
}

// cut shortens a client's text for an error.
func cut(s string) string {
	const maxLen = 100
	if len(s) > maxLen {
		return s[:maxLen] + "…"
	}
	return s
}
