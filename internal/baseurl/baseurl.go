// Package baseurl parses base URLs of servers.
package baseurl

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// URL is a base URL up to and including the API's version, without a trailing slash. The zero value is no URL.
type URL struct {
	Scheme string // "http" or "https"
	Host   string // host, with the port if one was given
	Path   string // "" or "/v1"
}

// String returns the URL as text.
func (u URL) String() string {
	if u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Or returns u, or other if u is none.
func (u URL) Or(other URL) URL {
	if u == (URL{}) {
		return other
	}
	return u
}

// TLS reports whether the connection is encrypted.
func (u URL) TLS() bool { return u.Scheme == "https" }

// Hostname returns the host without port and without the brackets of an IPv6 address.
func (u URL) Hostname() string { return (&url.URL{Host: u.Host}).Hostname() }

// Port returns the given port, or the scheme's default.
func (u URL) Port() int {
	if p, err := strconv.ParseUint((&url.URL{Host: u.Host}).Port(), 10, 16); err == nil {
		return int(p)
	}
	if u.TLS() {
		return 443
	}
	return 80
}

// Public reports whether the host's name suggests a host on the internet.
func (u URL) Public() bool {
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
	}
	return strings.Contains(host, ".") && !Loopback(host) &&
		!strings.HasSuffix(host, ".local") && !strings.HasSuffix(host, ".internal")
}

// Parse parses a base URL. Its errors never contain the text, which may hold a password.
func Parse(s string) (URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return URL{}, errors.New("not a URL")
	}
	switch {
	case u.User != nil:
		return URL{}, errors.New("credentials inside a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return URL{}, errors.New("not an http or https URL")
	case u.Hostname() == "" || u.Opaque != "":
		return URL{}, errors.New("no host in the URL")
	case !IsHost(u.Hostname()):
		return URL{}, errors.New("its host is neither a name nor an IP address without a zone")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return URL{}, errors.New("a base URL has no query and no fragment")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return URL{}, errors.New("not a port number")
		}
	}
	if call := callOf(u.Path); call != "" {
		return URL{}, errors.New("leave out " + call + ", which the gateway adds itself")
	}
	return URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.EscapedPath(), "/")}, nil
}

// callOf returns the part of a path that names an API call: a base URL ends before it. "" if there is none.
func callOf(path string) string {
	path = strings.TrimRight(path, "/")
	lower := strings.ToLower(path)
	for _, call := range []string{"/chat/completions", "/completions", "/messages/count_tokens", "/messages", "/responses", "/embeddings"} {
		if strings.HasSuffix(lower, call) {
			return path[len(path)-len(call):]
		}
	}
	for _, verb := range []string{":generatecontent", ":streamgeneratecontent", ":counttokens"} {
		if strings.HasSuffix(lower, verb) {
			return path[max(strings.LastIndex(lower, "/models/"), 0):]
		}
	}
	return ""
}

// IsHost reports whether Envoy accepts a host: an IP address, or a name of letters, digits, dashes and underscores.
func IsHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		plain := strings.IndexFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) < 0
		if label == "" || len(label) > 63 || !plain {
			return false
		}
	}
	return true
}

// Loopback reports whether a host is this machine, by its name.
func Loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
