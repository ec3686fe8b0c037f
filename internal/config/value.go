package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Secret is a credential. It prints as "***", in every verb and encoding; Reveal gives the bytes that go on the wire.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal is the credential itself.
func (s Secret) Reveal() string { return string(s) }

// Addr is a TCP address to listen on, "host:port". Empty means that nothing listens.
type Addr string

// Loopback tells whether only this machine can connect. An address that is off is.
func (a Addr) Loopback() bool {
	if a == "" {
		return true
	}
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return false
	}
	return loopback(host)
}

func parseAddr(s string) (Addr, error) {
	if s == "off" || s == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("not an address")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("not a port number")
	}
	if strings.ContainsAny(host, " /@") {
		return "", errors.New("not a host")
	}
	return Addr(s), nil
}

// Interval is the time between two of something that is done again and again. Zero means never.
type Interval time.Duration

// String is the interval as it is written.
func (i Interval) String() string {
	if i == 0 {
		return "off"
	}
	return duration(time.Duration(i))
}

func parseInterval(s string) (Interval, error) {
	if s == "off" || s == "0" {
		return 0, nil
	}
	t, err := parseDuration(s)
	return Interval(t), err
}

// Socket is where one part of the gateway listens for another: "unix:///path" or "host:port". Empty means nowhere.
type Socket string

// Unix is the path of a Unix socket; ok is false for a TCP address.
func (s Socket) Unix() (path string, ok bool) { return strings.CutPrefix(string(s), "unix://") }

func parseSocket(s string) (Socket, error) {
	if path, ok := Socket(s).Unix(); ok {
		if path == "" {
			return "", errors.New("no path")
		}
		return Socket(s), nil
	}
	_, err := parseAddr(s)
	return Socket(s), err
}

// URL is a base URL up to and including the API's version, without a trailing slash. The zero value is no URL.
type URL struct {
	Scheme string // "http" or "https"
	Host   string // host, with the port if one was given
	Path   string // "" or "/v1"
}

// String is the URL as text.
func (u URL) String() string {
	if u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// or is u, or else another URL where u is none.
func (u URL) or(other URL) URL {
	if u == (URL{}) {
		return other
	}
	return u
}

// TLS tells whether the connection is encrypted.
func (u URL) TLS() bool { return u.Scheme == "https" }

// Hostname is the host without port and without the brackets of an IPv6 address.
func (u URL) Hostname() string { return (&url.URL{Host: u.Host}).Hostname() }

// Port is the given port, or the scheme's own.
func (u URL) Port() int {
	if p, err := strconv.ParseUint((&url.URL{Host: u.Host}).Port(), 10, 16); err == nil {
		return int(p)
	}
	if u.TLS() {
		return 443
	}
	return 80
}

// public tells whether the host is, as far as its name says, somewhere on the internet.
func (u URL) public() bool {
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
	}
	return strings.Contains(host, ".") && !loopback(host) &&
		!strings.HasSuffix(host, ".local") && !strings.HasSuffix(host, ".internal")
}

// parseURL never puts the text into its errors: it may hold a password.
func parseURL(s string) (URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return URL{}, errors.New("not a URL")
	}
	switch {
	case u.User != nil:
		return URL{}, errCredentials
	case u.Scheme != "http" && u.Scheme != "https":
		return URL{}, errors.New("not an http or https URL")
	case u.Hostname() == "" || u.Opaque != "":
		return URL{}, errors.New("no host in the URL")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return URL{}, errors.New("a base URL has no query and no fragment")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return URL{}, errors.New("not a port number")
		}
	}
	return URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.EscapedPath(), "/")}, nil
}

var errCredentials = errors.New("credentials inside a URL")

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
