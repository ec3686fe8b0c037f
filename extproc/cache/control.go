package cache

import (
	"math"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Header is the request header with cache directives, and the answer header with the cache status.
const Header = "x-bardo-cache"

// Control is the cache directives of one request. Use Unbounded for durations that the caller did not set.
type Control struct {
	Force    bool // force: cacheable at any temperature
	Off      bool // off: no lookup, no store, no coalescing
	NoLookup bool // no-cache: call a provider and store its answer
	NoStore  bool // no-store: do not store the answer; a stored entry may still be served
	// MaxAge is the greatest age of a fresh entry that may be served (max-age).
	MaxAge time.Duration
	// StaleFor is how long after its expiry an entry may be served when all providers failed (stale-if-error).
	StaleFor time.Duration
}

// Unbounded means no limit.
const Unbounded = time.Duration(math.MaxInt64)

// directiveList names the directives of X-Bardo-Cache in error messages.
const directiveList = "force, off, no-cache, no-store, max-age=SECONDS or stale-if-error=SECONDS"

// ParseControl parses X-Bardo-Cache, and the request directives of RFC 9111 and RFC 5861 in Cache-Control. An unknown directive in
// X-Bardo-Cache is a fault of kind InvalidRequest; in Cache-Control it is ignored, as the RFC requires.
func ParseControl(h header.List) (Control, error) {
	c := Control{MaxAge: Unbounded, StaleFor: Unbounded}
	for _, f := range h {
		switch f.Name {
		case Header:
			for word := range strings.SplitSeq(f.Value, ",") {
				if !c.directive(word, true) {
					return c, fault.Newf(fault.InvalidRequest, "X-Bardo-Cache: %q, expected %s", truncated(strings.TrimSpace(word)), directiveList)
				}
			}
		case header.Forwarded: // all callers of another gateway are one account here, and must not share answers
			c.Off = true
		case "cache-control":
			for word := range strings.SplitSeq(f.Value, ",") {
				c.directive(word, false)
			}
		}
	}
	return c, nil
}

// directive applies one directive and reports whether it is valid. own is true for X-Bardo-Cache, which alone has force and off.
func (c *Control) directive(word string, own bool) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
	switch strings.ToLower(name) {
	case "force":
		c.Force = c.Force || own
		return own
	case "off":
		c.Off = c.Off || own
		return own
	case "no-cache":
		c.NoLookup = true
	case "no-store":
		c.NoStore = true
	case "max-age":
		return seconds(&c.MaxAge, value)
	case "stale-if-error":
		return seconds(&c.StaleFor, value)
	default:
		return false
	}
	return true
}

// seconds parses a number of seconds. If a directive is repeated, the smallest value applies.
func seconds(into *time.Duration, value string) bool {
	n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
	if err != nil {
		return false
	}
	*into = min(*into, time.Duration(n)*time.Second)
	return true
}

// truncated limits client input that is quoted in an error to 100 bytes.
func truncated(s string) string {
	const limit = 100
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
