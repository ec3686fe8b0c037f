// Package near finds names that are similar to a misspelled one, for "did you mean".
package near

import (
	"cmp"
	"slices"
	"strings"
)

// maxLen limits the work for a name from a client, in bytes: of longer names the prefix is compared.
const maxLen = 64

// Names returns up to n of names that resemble want, best first, equals in their given order. Names that differ too
// much for a typing error are left out, so the result may be empty. Case does not matter.
func Names(want string, names []string, n int) []string {
	type scored struct {
		name string
		cost int
	}
	want = clip(want)
	var found []scored
	for _, name := range names {
		if cost, ok := compare(want, clip(name)); ok {
			found = append(found, scored{name, cost})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(a.cost, b.cost) })
	out := make([]string, 0, min(n, len(found)))
	for _, f := range found[:min(n, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// clip returns the prefix of a name in lower case, which can take more bytes than the name.
func clip(s string) string {
	s = strings.ToLower(s[:min(len(s), maxLen)])
	return s[:min(len(s), maxLen)]
}

// compare returns the number of edits between two names; ok is false if they are too many. A name that is a prefix of the other always matches,
// because abbreviations are common.
func compare(a, b string) (cost int, ok bool) {
	cost = distance(a, b)
	if len(a) >= 3 && len(b) >= 3 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return min(cost, 3), true
	}
	return cost, cost <= max(1, min(len(a), len(b))/3)
}

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	var rows [2][maxLen + 1]int
	last, row := &rows[0], &rows[1]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
		}
		last, row = row, last
	}
	return last[len(b)]
}
