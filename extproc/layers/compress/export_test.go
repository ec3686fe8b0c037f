package compress

// Hunk is a hunk for tests.
type Hunk = hunk

// Diff is diff for tests.
func Diff(a, b []string) (out []Hunk, ok bool) { return diff(a, b) }

// Parts are the bounds and the lines of a hunk.
func (h hunk) Parts() (from, to int, was []string) { return h.from, h.to, h.was }

// Facts are the facts of a text.
func Facts(text string) (out []string) {
	factsOf(text, func(f string) { out = append(out, f) })
	return out
}

// Holds is contains.
func Holds(text, fact string) bool { return contains(text, fact) }

// Page is page.
var Page = page
