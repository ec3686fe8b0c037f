package wire_test

import (
	"testing"
	"unicode/utf8"

	"bardo.money/gateway/extproc/wire"
)

// TestRangesOfText: a range in bytes has the same text as the range in code points, and vice versa; a text that is not found has no range.
func TestRangesOfText(t *testing.T) {
	text := []byte("Café 🦊: sunny.")
	for _, row := range []struct {
		about      string
		start, end int
		quote      string
		from, to   int
	}{
		{"a word behind other characters", 12, 18, "sunny.", 8, 14},
		{"the whole", 0, len(text), "", 0, 14},
		{"bytes that are those of another part", 0, 6, "sunny.", 8, 14},
		{"beyond the end", 12, 900, "", 8, 14},
		{"behind the end", 900, 901, "", 0, 0},
		{"what is not said", 3, 3, "", 0, 0},
		{"words that are not there", 12, 18, "rainy.", 8, 14},
	} {
		from, to := wire.CodePointRange(text, row.start, row.end, row.quote)
		if from != row.from || to != row.to {
			t.Errorf("%s: %d to %d, want %d to %d", row.about, from, to, row.from, row.to)
		}
	}
}

// FuzzRangesOfText: no range is outside its text, and a range of whole characters is converted back to itself.
func FuzzRangesOfText(f *testing.F) {
	f.Add([]byte("Café 🦊"), 1, 5)
	f.Fuzz(func(t *testing.T, text []byte, from, to int) {
		if from < 0 || to < 0 {
			return
		}
		start, end := wire.ByteRange(text, from, to)
		if start < 0 || end < start || end > len(text) {
			t.Fatalf("%d to %d of %q is %d to %d", from, to, text, start, end)
		}
		if start == end || !utf8.Valid(text) {
			return
		}
		a, b := wire.CodePointRange(text, start, end, "")
		if a != from || b != min(to, utf8.RuneCount(text)) {
			t.Errorf("%d to %d of %q is %d to %d, which is %d to %d", from, to, text, start, end, a, b)
		}
	})
}
