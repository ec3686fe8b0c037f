package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The vocabulary's pattern, in which the first alternative that matches counts:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+

// cut is the length of the piece that a text begins with; the text is not empty.
func cut(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	begin := 0
	if r != '\r' && r != '\n' && !unicode.IsLetter(r) && !unicode.IsNumber(r) {
		begin = size
	}
	for _, match := range [...]func(string) int{lowerWord, upperWord} {
		if n := match(s[begin:]); n > 0 {
			return begin + n
		}
		if n := match(s); begin > 0 && n > 0 { // a mark may be both
			return n
		}
	}
	if unicode.IsNumber(r) {
		return span(s, unicode.IsNumber, 3)
	}
	if n := signs(s); n > 0 {
		return n
	}
	return blank(s, size)
}

func isUpper(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
}

func isLower(r rune) bool { return unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M) }

// span is the length of the longest beginning of characters that a function takes, of at most most characters if that is above 0.
func span(s string, takes func(rune) bool, most int) int {
	n := 0
	for i, r := range s {
		if !takes(r) || most > 0 && n == most {
			return i
		}
		n++
	}
	return len(s)
}

// lowerWord is any upper letters, and lower letters; 0 if that is not what s begins with. Letters without case are both.
func lowerWord(s string) int {
	upper := span(s, isUpper, 0)
	lower := span(s[upper:], isLower, 0)
	if lower == 0 { // then the last that is both ends the word
		i := strings.LastIndexFunc(s[:upper], isLower)
		if i < 0 {
			return 0
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		upper, lower = i, size
	}
	return upper + lower + contraction(s[upper+lower:])
}

// upperWord is upper letters, and any lower ones.
func upperWord(s string) int {
	upper := span(s, isUpper, 0)
	if upper == 0 {
		return 0
	}
	n := upper + span(s[upper:], isLower, 0)
	return n + contraction(s[n:])
}

// contraction is the length of an English one.
func contraction(s string) int {
	if s == "" || s[0] != '\'' {
		return 0
	}
	for _, end := range [...]string{"s", "t", "re", "ve", "m", "ll", "d", "ſ"} {
		if n := 1 + len(end); len(s) >= n && strings.EqualFold(s[1:n], end) {
			return n
		}
	}
	return 0
}

// signs is characters that are neither letters, numbers nor white space, with a space before them, and the ends of lines and slashes after them.
func signs(s string) int {
	begin := 0
	if s[0] == ' ' {
		begin = 1
	}
	n := span(s[begin:], func(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }, 0)
	if n == 0 {
		return 0
	}
	n += begin
	return n + span(s[n:], func(r rune) bool { return r == '\r' || r == '\n' || r == '/' }, 0)
}

// blank is white space: up to its last end of a line, or without the character before a word, or one character.
func blank(s string, first int) int {
	n := span(s, unicode.IsSpace, 0)
	if i := strings.LastIndexAny(s[:n], "\r\n"); i >= 0 {
		return i + 1
	}
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n < len(s) && n > last {
		return n - last
	}
	return max(n, first)
}
