package header

import "slices"

// ListItem makes a name fit for a comma-separated list in a header: printable ASCII without commas, at most 64 bytes. The name may be a client's, and
// one that Envoy refuses, or that makes the headers too long, would lose the whole answer.
func ListItem(name string) string {
	const maxLen = 64
	fits := func(c byte) bool { return c > ' ' && c < 0x7f && c != ',' }
	if len(name) <= maxLen && !slices.ContainsFunc([]byte(name), func(c byte) bool { return !fits(c) }) {
		return name
	}
	b := []byte(name[:min(len(name), maxLen)])
	for i, c := range b {
		if !fits(c) {
			b[i] = '_'
		}
	}
	return string(b)
}
