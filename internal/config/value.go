package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/secret"
)

// Secret is a credential. It prints masked; Reveal returns it.
type Secret = secret.Text

// Addr is a TCP address to listen on, "host:port". "" disables the listener.
type Addr string

// Loopback reports whether only this machine can connect, or the address is off.
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

// isIP reports whether the host is an IP address without a zone, localhost, or every interface, or the address is off.
func (a Addr) isIP() bool {
	host, _, err := net.SplitHostPort(string(a))
	if a == "" || err == nil && (host == "" || host == "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == ""
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

// Interval is the period of a repeated task. Zero means never.
type Interval time.Duration

// String returns the interval as written in a configuration.
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

// Socket is where one part of the gateway listens for another: "unix:///path" or "host:port". "" means nowhere.
type Socket string

// Unix returns the path of a Unix socket; ok is false for a TCP address.
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

// Database is the location of the ledger: "sqlite://path" or the URL of a PostgreSQL database. It prints without its password.
type Database string

// Postgres reports whether it is a PostgreSQL database.
func (d Database) Postgres() bool {
	return strings.HasPrefix(string(d), "postgres://") || strings.HasPrefix(string(d), "postgresql://")
}

// String returns the database without its password.
func (d Database) String() string {
	if !d.Postgres() {
		return string(d)
	}
	u, err := url.Parse(string(d))
	if err != nil {
		return "postgres://"
	}
	q := u.Query()
	for _, name := range databasePasswords {
		if q.Has(name) {
			q.Set(name, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

// databasePasswords are the parameters of a PostgreSQL URL that are passwords: the user's, and that of the client's private key.
var databasePasswords = []string{"password", "sslpassword"}

// passwords returns the passwords of a PostgreSQL database's URL.
func (d Database) passwords() (all []Secret) {
	u, err := url.Parse(string(d))
	if err != nil || !d.Postgres() {
		return nil
	}
	if p, ok := u.User.Password(); ok {
		all = append(all, secret.New(p))
	}
	for _, name := range databasePasswords {
		for _, p := range u.Query()[name] {
			all = append(all, secret.New(p))
		}
	}
	return all
}

// Vectors is the location of vectors: "memory" or the URL of a PostgreSQL database. It prints without its password.
type Vectors string

// Postgres reports whether they are in a PostgreSQL database.
func (v Vectors) Postgres() bool { return Database(v).Postgres() }

// String returns the location without its password.
func (v Vectors) String() string { return Database(v).String() }

func parseVectors(s string) (Vectors, error) {
	if s == "memory" {
		return Vectors(s), nil
	}
	d, err := parseDatabase(s)
	if err == nil && !d.Postgres() {
		return "", errors.New("not a database that gateways share")
	}
	return Vectors(d), err
}

func parseDatabase(s string) (Database, error) {
	d := Database(s)
	if path, ok := strings.CutPrefix(s, "sqlite://"); ok && path != "" {
		return d, nil
	}
	if !d.Postgres() {
		return "", errors.New("not a database of a known kind")
	}
	if _, err := url.Parse(s); err != nil {
		return "", errors.New("not a URL") // without the password
	}
	return d, nil
}

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

// or returns u, or other if u is none.
func (u URL) or(other URL) URL {
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

// public reports whether the host's name suggests a host on the internet.
func (u URL) public() bool {
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
	}
	return strings.Contains(host, ".") && !loopback(host) &&
		!strings.HasSuffix(host, ".local") && !strings.HasSuffix(host, ".internal")
}

// parseURL parses a base URL. Its errors never contain the text, which may hold a password.
func parseURL(s string) (URL, error) {
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
	case !isHost(u.Hostname()):
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

// isHost reports whether Envoy accepts a host: an IP address, or a name of letters, digits, dashes and underscores.
func isHost(host string) bool {
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

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
