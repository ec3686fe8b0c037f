package near_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/internal/near"
)

func TestNames(t *testing.T) {
	names := []string{"api_key", "base_url", "endpoint", "endpoints", "models"}
	for _, c := range []struct {
		about, want string
		n           int
		expect      []string
	}{
		{"a missing underscore is one edit", "apikey", 1, []string{"api_key"}},
		{"case does not count", "Base_URL", 1, []string{"base_url"}},
		{"the exact name comes before the longer one", "endpoint", 2, []string{"endpoint", "endpoints"}},
		{"a shortened name is near", "end", 2, []string{"endpoint", "endpoints"}},
		{"nothing resembles it", "zzzzzz", 3, []string{}},
		{"one letter says nothing", "x", 3, []string{}},
		{"an empty name is near to nothing", "", 3, []string{}},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := near.Names(c.want, names, c.n); !slices.Equal(got, c.expect) {
				t.Errorf("got %q, want %q", got, c.expect)
			}
		})
	}
}

func FuzzNames(f *testing.F) {
	f.Add("claude-sonet", "claude-sonnet", 2)
	f.Add("", "", 0)
	f.Fuzz(func(t *testing.T, want, name string, n int) {
		got := near.Names(want, []string{name, want}, max(n, 0))
		if len(got) > max(n, 0) {
			t.Fatalf("%d names for n=%d", len(got), n)
		}
	})
}
