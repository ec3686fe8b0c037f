package config

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/configfile"
	"bardo.money/gateway/internal/near"
)

// laterKey is a key of the published schema that has no effect in this version. below lists the keys inside it, if they are fixed, so that typing
// errors are still reported.
type laterKey struct {
	key, doc string
	below    string
}

var laterKeys = []laterKey{
	{"providers.venice.mock_rate_ms", "Interval of synthetic telemetry; there is none where Venice is configured: use telemetry.venice_mock_rate_ms.", ""},
	{"providers.venice.timeout_ms", "Timeout of Venice's client; use routing.timeouts.", ""},
	{"providers.venice.max_retries", "Retries of Venice's client; use routing.max_retries.", ""},
}

func findLater(key string) *laterKey {
	i := slices.IndexFunc(laterKeys, func(l laterKey) bool { return l.key == key })
	if i < 0 {
		return nil
	}
	return &laterKeys[i]
}

func isLater(key string) bool { return findLater(key) != nil }

// laterBelow returns the later keys directly below a key.
func laterBelow(key string) []string {
	var out []string
	for _, l := range laterKeys {
		if name, ok := strings.CutPrefix(l.key, join(key, "")); ok && !strings.Contains(name, ".") {
			out = append(out, name)
		}
	}
	return out
}

// later accepts a key without effect, with a warning.
func (d *decoder) later(key string, e configfile.Entry) {
	d.warn(e.At, key, "accepted, but this version does not act on it")
	l := findLater(key)
	if l.below == "" || e.Value.Kind == configfile.Null {
		return
	}
	if e.Value.Kind != configfile.Table {
		d.fail(e.Value.At, key, configfile.Table.String(), "%s", e.Value.Kind)
		return
	}
	known := strings.Fields(l.below)
	for _, sub := range e.Value.Keys {
		if slices.Contains(known, sub.Name) {
			continue
		}
		if like := near.Names(sub.Name, known, 1); len(like) > 0 {
			d.fail(sub.At, join(key, sub.Name), like[0], "unknown key")
			continue
		}
		d.fail(sub.At, join(key, sub.Name), "one of "+strings.Join(known, ", "), "unknown key")
	}
}
