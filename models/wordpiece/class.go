package wordpiece

import (
	"unicode"
	"unicode/utf8"
)

// isControl reports whether a character is removed: controls, formats and private use, but no white space.
func isControl(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && !unicode.Is(laterFormats, r)
}

// isPunct reports whether a character is punctuation, which for these models includes all ASCII symbols.
func isPunct(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~' ||
		r >= utf8.RuneSelf && (unicode.IsPunct(r) && !unicode.Is(laterPunct, r) || r == formerPunct || r == formerPunct2)
}

// isChinese reports whether a character is a word by itself: those of the blocks of unified ideographs, as in the models' training.
func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// isMark reports whether a character is an accent or another nonspacing mark, which is removed.
func isMark(r rune) bool {
	return unicode.Is(unicode.Mn, r) && !unicode.Is(laterMarks, r) || r == formerMark
}

// lower returns the lower case of a character.
func lower(r rune) rune {
	if l := unicode.ToLower(r); l != r {
		return l
	}
	if l, ok := laterLower[r]; ok {
		return l
	}
	return r
}
