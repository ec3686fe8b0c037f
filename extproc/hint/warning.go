package hint

import (
	"strings"

	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Warning returns the value of X-Bardo-Warning about unknown hints, with suggestions; "" if there are none. Its length is bounded, and it needs no
// escaping.
func Warning(h *policy.Hints) string {
	if len(h.Unknown) == 0 && h.UnknownSubsystem == "" {
		return ""
	}
	var b strings.Builder
	if h.UnknownSubsystem != "" {
		b.WriteString("unknown subsystem: ")
		suggest(&b, h.UnknownSubsystem, near.Names(h.UnknownSubsystem, intent.Subsystems(), 1))
	}
	for i, name := range h.Unknown {
		switch {
		case i > 0:
			b.WriteString(", ")
		case b.Len() > 0:
			b.WriteString("; unknown hints: ")
		default:
			b.WriteString("unknown hints: ")
		}
		suggest(&b, name, suggestions(name))
	}
	if len(h.Unknown) >= maxUnknown {
		b.WriteString(" and maybe others")
	}
	return b.String()
}

// suggest writes a name and the first of the similar ones.
func suggest(b *strings.Builder, name string, like []string) {
	b.WriteString(name)
	if len(like) > 0 {
		b.WriteString(" (did you mean " + like[0] + "?)")
	}
}

// suggestions returns the key that is most similar to an unknown name, if any.
func suggestions(name string) []string {
	names := Keys()
	if rest, ok := strings.CutPrefix(name, "profile."); ok {
		name, names = rest, namesOf(profile)
	}
	if rest, ok := strings.CutPrefix(name, "scenario."); ok {
		name, names = rest, namesOf(scenario)
	}
	key := strings.TrimPrefix(strings.TrimPrefix(name, "X-Bardo-"), "bardo.")
	return near.Names(strings.ReplaceAll(key, "-", "_"), names, 1)
}
