package hint

import (
	"strings"

	"bardo.money/gateway/internal/near"
)

// Warning is the value of X-Bardo-Warning about hints that mean nothing, with what was probably meant; "" without any. It has a bounded
// length, and nothing in it needs escaping.
func Warning(unknown []string) string {
	if len(unknown) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("unknown hints: ")
	for i, name := range unknown {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		if like := meant(name); like != "" {
			b.WriteString(" (did you mean " + like + "?)")
		}
	}
	if len(unknown) >= mostUnknown {
		b.WriteString(" and maybe others")
	}
	return b.String()
}

// meant is the key that an unknown name resembles, if any.
func meant(name string) string {
	names := Keys()
	if rest, ok := strings.CutPrefix(name, "profile."); ok {
		name, names = rest, namesOf(profile)
	}
	if rest, ok := strings.CutPrefix(name, "scenario."); ok {
		name, names = rest, namesOf(scenario)
	}
	key := strings.TrimPrefix(strings.TrimPrefix(name, "X-Bardo-"), "bardo.")
	if like := near.Names(strings.ReplaceAll(key, "-", "_"), names, 1); len(like) > 0 {
		return like[0]
	}
	return ""
}
