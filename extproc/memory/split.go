package memory

import (
	"strings"
	"unicode/utf8"
)

// longest is how long a passage is at most, in bytes: the embedding model reads all of it.
const longest = 600

// span is a place in a text.
type span struct{ start, stop int }

// split cuts a text into passages: at the ends of paragraphs where it can, else of lines, of sentences, of words. White space around them belongs to none.
func split(text string) (out []span) {
	for at := 0; at < len(text); {
		end := at + cut(text[at:])
		if s, e := trimmed(text, at, end); s < e {
			out = append(out, span{s, e})
		}
		at = end
	}
	return out
}

// cut is where the first passage of a text ends.
func cut(text string) int {
	if len(text) <= longest {
		return len(text)
	}
	for _, after := range [...]string{"\n\n", "\n", ". ", " "} {
		if i := strings.LastIndex(text[:longest], after); i >= longest/3 {
			return i + len(after)
		}
	}
	n := longest
	for n > longest-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// trimmed is a place without the white space at its ends.
func trimmed(text string, start, stop int) (from, to int) {
	piece := strings.TrimLeft(text[start:stop], " \t\r\n")
	start = stop - len(piece)
	return start, start + len(strings.TrimRight(piece, " \t\r\n"))
}
