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

// cut returns the length of the first piece of a text, which must not be empty.
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

// span returns the length of the longest prefix of accepted characters, at most limit of them if limit is above 0.
func span(s string, takes func(rune) bool, limit int) int {
	n := 0
	for i, r := range s {
		if !takes(r) || limit > 0 && n == limit {
			return i
		}
		n++
	}
	return len(s)
}

// lowerWord matches any upper-case letters followed by lower-case letters; 0 if s does not start so. Letters without case count as both.
func lowerWord(s string) int {
	upper := span(s, isUpper, 0)
	lower := span(s[upper:], isLower, 0)
	if lower == 0 { // then the last letter that is both ends the word
		i := strings.LastIndexFunc(s[:upper], isLower)
		if i < 0 {
			return 0
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		upper, lower = i, size
	}
	return upper + lower + contraction(s[upper+lower:])
}

// upperWord matches upper-case letters followed by any lower-case ones.
func upperWord(s string) int {
	upper := span(s, isUpper, 0)
	if upper == 0 {
		return 0
	}
	n := upper + span(s[upper:], isLower, 0)
	return n + contraction(s[n:])
}

// contraction returns the length of an English contraction.
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

// signs matches characters that are neither letters, numbers nor white space, with one space before them, and line ends and slashes after them.
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

// blank matches white space: up to its last line end, or without the character before a word, or one character.
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
