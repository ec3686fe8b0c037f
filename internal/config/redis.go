package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// redisSchemes are the URL schemes of Redis: over TCP, over TLS, over a Unix socket.
var redisSchemes = []string{"redis", "rediss", "redis+unix"}

func redisAddress(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && slices.Contains(redisSchemes, scheme)
}

// CacheRedis returns the address of the Redis with the stored answers, with its password; nil if they are elsewhere.
func (s Store) CacheRedis() *url.URL { return redisURL(s.Cache, s.CachePassword) }

// LimitsRedis returns the address of the Redis with the shared limits, with its password; nil if each gateway counts alone.
func (s Store) LimitsRedis() *url.URL { return redisURL(s.Limits, s.LimitsPassword) }

func redisURL(address string, password Secret) *url.URL {
	if !redisAddress(address) {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	if password.IsSet() {
		u.User = url.UserPassword(u.User.Username(), password.Reveal())
	}
	if u.Scheme == "redis+unix" {
		u.Scheme = "unix"
	}
	return u
}

// database is the path of a redis:// address.
var database = pattern(`^/?\d{0,4}$`)

// checkRedis checks the address of a Redis. It must not contain a password, which would be shown with it. key is the key of the address; the keys of
// its password, CA and timeout have it as prefix.
func (d *decoder) checkRedis(key, address string, password Secret, ca string, timeout time.Duration) {
	d.checkRedisAddress(key, address, password)
	if u, err := url.Parse(address); ca != "" && err == nil && u.Scheme != "rediss" {
		d.problem(key+"_ca", "a rediss:// address in "+key, "only encrypted connections have a certificate")
	}
	if timeout <= 0 || timeout > time.Second {
		d.problem(key+"_timeout", "more than 0, at most 1s", "not a time limit of a lookup")
	}
}

func (d *decoder) checkRedisAddress(key, address string, secret Secret) {
	u, err := url.Parse(address)
	if err != nil {
		d.problem(key, "redis://user@host:port/database", "the address cannot be read")
		return
	}
	_, password := u.User.Password()
	switch {
	case password:
		d.problem(key, "an address without a password", "the password belongs to %s_password", key)
	case u.RawQuery != "" || u.Fragment != "":
		d.problem(key, "redis://user@host:port/database", "parameters are not known")
	case u.Scheme == "redis+unix":
		if u.Host != "" || u.Path == "" {
			d.problem(key, "redis+unix:///path", "the path of the socket is not there")
		}
	case u.Hostname() == "" || !database().MatchString(u.Path):
		d.problem(key, "redis://user@host:port/database", "not an address of Redis")
	case u.Scheme == "redis" && secret.IsSet() && (URL{Host: u.Host}).Public():
		d.warn(d.place(key), key, "the password goes to %s without encryption", u.Host)
	}
}

// checkLimits refuses invalid settings of shared limits.
func (d *decoder) checkLimits(cfg *Config) {
	s, l := &cfg.Store, &cfg.Limits
	switch {
	case s.Limits == "memory":
	case redisAddress(s.Limits):
		d.checkRedis("store.limits", s.Limits, s.LimitsPassword, s.LimitsCA, s.LimitsTimeout)
		if s.LimitsLease < time.Second || s.LimitsLease <= s.LimitsTimeout {
			d.problem("store.limits_lease", "at least 1s, and longer than store.limits_timeout", "it has to be renewed before it ends")
		}
	default:
		d.problem("store.limits", "memory or redis://host", "not a store of a known kind")
	}
	d.checkLadder(l.Ladder)
	d.checkQuotas(l.Quotas)
	if l.WhenAway == "share" && l.Gateways < 2 {
		d.problem("limits.gateways", "the number of gateways that share the limits, at least 2", "a gateway that counts alone must know of how many it is one")
	}
}

// checkLadder refuses ladders that do not define the next model.
func (d *decoder) checkLadder(ladder map[string][]string) {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(ladder)) {
		key := "limits.ladder." + name
		if len(ladder[name]) < 2 {
			d.problem(key, "at least two models, best first", "a list without a cheaper model")
		}
		for _, m := range ladder[name] {
			if at, ok := seen[m]; ok {
				d.problem(key, "each model once", "%q is in %s, too", m, at)
			}
			seen[m] = key
		}
	}
}

// Share returns the number of gateways among which each limit is divided while the store of limits is down; 0 if clients with limits are refused
// then.
func (l *Limits) Share() int {
	if l.WhenAway != "share" {
		return 0
	}
	return l.Gateways
}
