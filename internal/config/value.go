package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/baseurl"
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
	return baseurl.Loopback(host)
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

// URL is a base URL.
type URL = baseurl.URL
