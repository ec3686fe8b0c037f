package cache

import (
	"math"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Header is the request header by which a caller speaks to the cache, and the answer's that says what it knew.
const Header = "x-bardo-cache"

// Control is what a caller allows and wants of the cache.
type Control struct {
	Force    bool // count as repeatable, whatever the temperature
	Off      bool // neither read nor write, and do not wait for others
	NoLookup bool // no-cache: ask a provider, and store what it answers
	NoStore  bool // no-store: what is stored already may be served
	// MaxAge bounds the age of what may be served while it is fresh; Unbounded without a wish.
	MaxAge time.Duration
	// StaleFor bounds for how long past its time an entry may stand in for a provider that failed; Unbounded without a wish.
	StaleFor time.Duration
}

// Unbounded is no bound.
const Unbounded = time.Duration(math.MaxInt64)

// words are what X-Bardo-Cache takes, as an error lists them.
const words = "force, off, no-cache, no-store, max-age=SECONDS or stale-if-error=SECONDS"

// ParseControl reads X-Bardo-Cache, and the request directives of RFC 9111 and 5861 in Cache-Control. X-Bardo-Cache is our own:
// what it does not know is a fault of kind InvalidRequest. Of Cache-Control, what is not known is left alone, as the RFC asks.
func ParseControl(h header.List) (Control, error) {
	c := Control{MaxAge: Unbounded, StaleFor: Unbounded}
	for _, f := range h {
		switch f.Name {
		case Header:
			for word := range strings.SplitSeq(f.Value, ",") {
				if !c.directive(word, true) {
					return c, fault.Newf(fault.InvalidRequest, "X-Bardo-Cache: %q, expected %s", clipped(strings.TrimSpace(word)), words)
				}
			}
		case "cache-control":
			for word := range strings.SplitSeq(f.Value, ",") {
				c.directive(word, false)
			}
		}
	}
	return c, nil
}

// directive reads one word; it is false for one that it does not know.
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

// seconds reads a number of seconds; of several the smallest counts. One too large to say is no bound.
func seconds(into *time.Duration, value string) bool {
	n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
	if err != nil {
		return false
	}
	*into = min(*into, time.Duration(n)*time.Second)
	return true
}

// clipped keeps what a client sent from filling an error.
func clipped(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
