package jsonx

import (
	"strings"
	"testing"
)

// byBytes is skipString, a byte at a time.
func byBytes(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func FuzzAStringEndsAtItsQuote(f *testing.F) {
	for _, s := range []string{`""`, `"a"`, `"a\"b" "c"`, `"\\"`, `"\\\""x`, `"\`, `"`, `"a`, `"\\\\\\" "`, "\"\n\x00\"", `"\u0022"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		if got, want := skipString(b, 0), byBytes(b, 0); got != want {
			t.Errorf("%q ends at %d, want %d", b, got, want)
		}
	})
}

func BenchmarkSkipString(bb *testing.B) {
	for name, text := range map[string]string{
		"prose": strings.Repeat("The quick brown fox jumps over the lazy dog, 12 times.\\n", 900), "json": strings.Repeat(`{\"id\": 12, \"name\": \"x\"}, `, 1800), "key": "name",
	} {
		b := []byte(`"` + text + `"`)
		bb.Run(name, func(bb *testing.B) {
			bb.SetBytes(int64(len(b)))
			for bb.Loop() {
				if skipString(b, 0) != len(b) {
					bb.Fatal("it ends elsewhere")
				}
			}
		})
	}
}
