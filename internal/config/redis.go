package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// redisSchemes are those of addresses of Redis: over TCP, over TLS, over a Unix socket.
var redisSchemes = []string{"redis", "rediss", "redis+unix"}

func redisAddress(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && slices.Contains(redisSchemes, scheme)
}

// CacheRedis is the address of the Redis that has the stored answers, with its password; nil if they are elsewhere.
func (s Store) CacheRedis() *url.URL {
	if !redisAddress(s.Cache) {
		return nil
	}
	u, err := url.Parse(s.Cache)
	if err != nil {
		return nil
	}
	if s.CachePassword.IsSet() {
		u.User = url.UserPassword(u.User.Username(), s.CachePassword.Reveal())
	}
	if u.Scheme == "redis+unix" {
		u.Scheme = "unix"
	}
	return u
}

// database is the path of a redis:// address.
var database = regexp.MustCompile(`^/?\d{0,4}$`)

// checkRedis checks the address of a Redis. A password in it would be shown with it.
func (d *decoder) checkRedis(s Store) {
	u, err := url.Parse(s.Cache)
	if err != nil {
		d.problem("store.cache", "redis://user@host:port/database", "the address cannot be read")
		return
	}
	_, password := u.User.Password()
	switch {
	case password:
		d.problem("store.cache", "an address without a password", "the password belongs to store.cache_password")
	case u.RawQuery != "" || u.Fragment != "":
		d.problem("store.cache", "redis://user@host:port/database", "parameters are not known")
	case u.Scheme == "redis+unix":
		if u.Host != "" || u.Path == "" {
			d.problem("store.cache", "redis+unix:///path", "the path of the socket is not there")
		}
	case u.Hostname() == "" || !database.MatchString(u.Path):
		d.problem("store.cache", "redis://user@host:port/database", "not an address of Redis")
	case u.Scheme == "redis" && s.CachePassword.IsSet() && (URL{Host: u.Host}).public():
		d.warn(d.place("store.cache"), "store.cache", "the password goes to %s without encryption", u.Host)
	}
	if s.CacheCA != "" && u.Scheme != "rediss" {
		d.problem("store.cache_ca", "a rediss:// address in store.cache", "only encrypted connections have a certificate")
	}
	if s.CacheTimeout <= 0 || s.CacheTimeout > time.Second {
		d.problem("store.cache_timeout", "more than 0, at most 1s", "not a time limit of a lookup")
	}
}
