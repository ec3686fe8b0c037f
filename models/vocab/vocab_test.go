package vocab

import "testing"

func TestAddedTokensAreFound(t *testing.T) {
	f := File{Added: []Added{{ID: 1, Content: "[A]"}, {ID: 2, Content: "[A]B"}, {ID: 3, Content: "<l>", LStrip: true}, {ID: 4, Content: "<r>", RStrip: true}}}
	s := f.NewSplitter(func(Added) bool { return true }, func(s string) string { return s })
	for _, c := range []struct {
		text, before, after string
		id                  int32
		ok                  bool
	}{
		{"no token", "no token", "", 0, false},
		{"x[A]y", "x", "y", 1, true},
		{"x[A]B[A]", "x", "[A]", 2, true}, // the longest
		{"x \t<l> y", "x", " y", 3, true},
		{"x <r> \ny", "x ", "y", 4, true},
		{"[[A]", "[", "", 1, true},
		{"", "", "", 0, false},
	} {
		before, id, after, ok := s.Cut(c.text)
		if before != c.before || id != c.id || after != c.after || ok != c.ok {
			t.Errorf("%q: %q %d %q %v", c.text, before, id, after, ok)
		}
	}
}
