package pii

import (
	"strings"
	"unicode/utf8"
)

// Head returns the beginning of a masked text, of at most limit bytes. It ends neither within a character nor within a placeholder, which could not be restored.
func Head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(limit, 0)
	for back := 0; back < utf8.UTFMax-1 && end > 0 && !utf8.RuneStart(text[end]); back++ {
		end--
	}
	if from, _, cut := holderOver(text, end); cut {
		end = from
	}
	return text[:end]
}

// Tail returns the end of a masked text, of at most limit bytes. It begins neither within a character nor within a placeholder.
func Tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	begin := len(text) - max(limit, 0)
	for ahead := 0; ahead < utf8.UTFMax-1 && begin < len(text) && !utf8.RuneStart(text[begin]); ahead++ {
		begin++
	}
	if _, to, cut := holderOver(text, begin); cut {
		begin = to
	}
	return text[begin:]
}

// holderOver finds the placeholder around an offset.
func holderOver(text string, at int) (from, to int, ok bool) {
	before := max(0, at-maxHolder)
	i := strings.LastIndexByte(text[before:at], '<')
	if i < 0 {
		return 0, 0, false
	}
	from = before + i
	n := strings.IndexByte(text[from:min(len(text), from+maxHolder)], '>')
	if n < 0 || from+n < at {
		return 0, 0, false
	}
	return from, from + n + 1, isHolder(text[from+1 : from+n])
}

// isHolder reports whether a text between angle brackets has the form of a placeholder.
func isHolder(inside string) bool {
	n := len(inside) - suffixLen
	if n < len("X_") || inside[n-1] != '_' {
		return false
	}
	for i := range len(inside) {
		c := inside[i]
		if !isSuffix[c] && (i >= n || c != '_' && (c < 'A' || c > 'Z')) {
			return false
		}
	}
	return true
}
