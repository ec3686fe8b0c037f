package jsonx

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// byteByByte resolves escapes one byte at a time.
func byteByByte(s []byte) (out []byte) {
	for len(s) > 0 {
		if s[0] != '\\' {
			out, s = append(out, s[0]), s[1:]
			continue
		}
		r, n := unescape(s)
		out, s = utf8.AppendRune(out, r), s[n:]
	}
	return out
}

func TestEscapesAreResolvedEightBytesAtATime(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	pieces := []string{
		"a", "seven77", "eight888", "ü", "€", "😀", "\x80", "]", "[", `\n`, `\"`, `\\`, `\/`, `\u00e9`, `\u20ac`, `\ud83d\ude00`, // valid, or not escapes
		`\ud83d`, `\ude00`, `\x`, `\u12`, `\u`, `\`, `\u00zz`, "\\\n", "\\ü", // invalid
	}
	for range 20_000 {
		var b strings.Builder
		for n := r.IntN(30); n > 0; n-- {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		in := b.String()
		want := string(byteByByte([]byte(in)))
		if got := unescaped([]byte(in)); got != want {
			t.Fatalf("%q is %q, want %q", in, got, want)
		}
		if got := appendUnescaped([]byte("before"), []byte(in)); string(got) != "before"+want {
			t.Fatalf("appended %q is %q, want %q", in, got, want)
		}
	}
}
