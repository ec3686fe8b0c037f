package memory

import (
	"strings"
	"unicode/utf8"
)

// maxPassageBytes is the maximum length of a passage in bytes: the embedding model reads all of it.
const maxPassageBytes = 600

// span is a range in a text.
type span struct{ start, stop int }

// split splits a text into passages: at the ends of paragraphs if possible, else of lines, sentences, or words. White space around them is dropped.
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

// cut returns the end of the first passage of a text.
func cut(text string) int {
	if len(text) <= maxPassageBytes {
		return len(text)
	}
	for _, after := range [...]string{"\n\n", "\n", ". ", " "} {
		if i := strings.LastIndex(text[:maxPassageBytes], after); i >= maxPassageBytes/3 {
			return i + len(after)
		}
	}
	n := maxPassageBytes
	for n > maxPassageBytes-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// trimmed returns a range without the white space at its ends.
func trimmed(text string, start, stop int) (from, to int) {
	piece := strings.TrimLeft(text[start:stop], " \t\r\n")
	start = stop - len(piece)
	return start, start + len(strings.TrimRight(piece, " \t\r\n"))
}
