package injectioneval

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// encodings are how texts of the set may be written: [[name:text]].
var encodings = map[string]func(string) string{
	"base64":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"hex":       func(s string) string { return hex.EncodeToString([]byte(s)) },
	"percent":   eachByte("%%%02X"),
	"binary":    func(s string) string { return strings.TrimSpace(eachByte("%08b ")(s)) },
	"unicode":   eachByte(`\u%04x`),
	"entities":  eachByte("&#%d;"),
	"rot13":     func(s string) string { return strings.Map(rot13, s) },
	"spaced":    spaced,
	"zerowidth": func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b") },
	"fullwidth": moved('!', '~', 0xFEE0),
	"tags":      moved(' ', '~', 0xE0000),
	"homoglyph": strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р", "c", "с", "i", "і").Replace,
	"reverse":   reverse,
}

func eachByte(format string) func(string) string {
	return func(s string) string {
		var out strings.Builder
		for _, b := range []byte(s) {
			fmt.Fprintf(&out, format, b)
		}
		return out.String()
	}
}

func rot13(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return 'a' + (r-'a'+13)%26
	case r >= 'A' && r <= 'Z':
		return 'A' + (r-'A'+13)%26
	}
	return r
}

// spaced writes letters apart, and words further apart.
func spaced(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = strings.Join(strings.Split(w, ""), " ")
	}
	return strings.Join(words, "   ")
}

// moved adds to the characters of a range.
func moved(from, to, by rune) func(string) string {
	return func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= from && r <= to {
				return r + by
			}
			return r
		}, s)
	}
}

func reverse(s string) string {
	r := []rune(s)
	slices.Reverse(r)
	return string(r)
}

// written is a text with its encodings, innermost first.
func written(text string) (string, error) {
	for {
		start := strings.LastIndex(text, "[[")
		if start < 0 {
			return text, nil
		}
		inner, rest, ok := strings.Cut(text[start+2:], "]]")
		name, plain, named := strings.Cut(inner, ":")
		encode := encodings[name]
		if !ok || !named || encode == nil {
			return "", fmt.Errorf("expected [[encoding:text]], got [[%s", inner)
		}
		text = text[:start] + encode(plain) + rest
	}
}
