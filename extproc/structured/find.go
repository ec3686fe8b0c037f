package structured

import (
	"bytes"
	"iter"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

var fence = []byte("```")

// block is what stands in a fence.
type block struct {
	text   []byte
	end    int  // behind it, in the text around
	closed bool // the fence has an end
}

// search is one search through a text. Where brackets are never closed, each is looked at until the end of the text; so what is looked
// at is counted.
type search struct{ left int } // bytes

// mostLooks is how often the bytes of a text may be looked at for a closing bracket, on the average.
const mostLooks = 64

func newSearch(text []byte) *search { return &search{left: mostLooks * len(text)} }

// over reports whether enough was looked at.
func (s *search) over() bool { return s.left <= 0 }

// nestedEnd is where the object or array that a text begins with is closed, 0 for nowhere.
func (s *search) nestedEnd(b []byte) int {
	b = b[:max(0, min(len(b), s.left))]
	end := nestedEnd(b)
	switch {
	case end > 0:
		s.left -= end
	case len(b) > 0 && (b[0] == '{' || b[0] == '['):
		s.left -= len(b)
	}
	return end
}

// fences yields the fenced blocks of a text, in order.
func (s *search) fences(text []byte) iter.Seq[block] {
	return func(yield func(block) bool) {
		for at := 0; !s.over(); {
			n := bytes.Index(text[at:], fence)
			if n < 0 {
				return
			}
			start := at + n + len(fence)
			start += tagEnd(text[start:])
			end := s.fenceEnd(text, start)
			b := block{text: bytes.TrimSpace(text[start:]), end: len(text)}
			if end >= 0 {
				b = block{text: bytes.TrimSpace(text[start:end]), end: end + len(fence), closed: true}
			}
			if !yield(b) || end < 0 {
				return
			}
			at = b.end
		}
	}
}

// fencedAlone is what stands in the only block of a text, if there is nothing else; nil otherwise.
func fencedAlone(text []byte) []byte {
	if !bytes.HasPrefix(text, fence) {
		return nil
	}
	for b := range newSearch(text).fences(text) {
		if b.closed && b.end == len(text) {
			return b.text
		}
		break
	}
	return nil
}

// tagEnd is how long the name of a block's language is.
func tagEnd(b []byte) int {
	n := 0
	for n < len(b) && (b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z' || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	return n
}

// fenceEnd is where a block ends: at a fence that is not inside a JSON string, else at the next one; -1 for nowhere.
func (s *search) fenceEnd(text []byte, start int) int {
	inner := bytes.TrimLeft(text[start:], " \t\r\n")
	from := len(text) - len(inner)
	if end := s.nestedEnd(inner); end > 0 && jsonx.Valid(inner[:end]) == nil {
		from += end
	}
	n := bytes.Index(text[from:], fence)
	if n < 0 {
		if n = bytes.Index(text[start:], fence); n < 0 {
			return -1
		}
		return start + n
	}
	return from + n
}

// candidate is a piece of a text that may be the answer, as JSON.
type candidate struct {
	json     []byte
	repaired bool
}

// Bounds on the places of a text that are tried as the beginning of an answer.
const (
	mostStarts  = 256
	mostRepairs = 16
)

// candidates yields what may be the answer, the likeliest first.
func candidates(text []byte, kind jsonx.Kind, cut bool) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		if whole(text, kind) && (!cut || endsItself(text)) {
			yield(candidate{json: text})
			return
		}
		s := newSearch(text)
		for b := range s.fences(text) {
			if !b.closed {
				break
			}
			if c, ok := fenced(b.text, kind); ok && !yield(c) {
				return
			}
		}
		if s.nested(text, kind, cut, yield) && jsonx.Valid(text) == nil && (!cut || endsItself(text)) {
			yield(candidate{json: text}) // of another kind, and it can be said so
		}
	}
}

// fenced is what stands in a block, if that is one value and nothing else.
func fenced(b []byte, kind jsonx.Kind) (c candidate, ok bool) {
	if whole(b, kind) {
		return candidate{json: b}, true
	}
	if len(b) == 0 || strings.IndexByte(startsOf(kind), b[0]) < 0 {
		return c, false
	}
	out, n := repaired(b, true) // a block that is closed was not left unfinished
	return candidate{json: out, repaired: true}, out != nil && n == len(b)
}

// nested yields the objects or arrays of a text. What looks like one and cannot be read ends the search: what is inside is no answer.
// more is false where the search has ended.
func (s *search) nested(text []byte, kind jsonx.Kind, cut bool, yield func(candidate) bool) (more bool) {
	starts, repairs := startsOf(kind), 0
	for at, tries := 0, 0; tries < mostStarts && !s.over(); tries++ {
		n := indexAny(text[at:], starts)
		if n < 0 {
			return true
		}
		at += n
		rest := text[at:]
		if end := s.nestedEnd(rest); end > 0 && jsonx.Valid(rest[:end]) == nil {
			at += end
			if wanted := kind != jsonx.Array || rest[0] == '['; wanted && !yield(candidate{json: rest[:end]}) {
				return false
			}
			continue
		}
		if !isBeginning(rest) {
			at++
			continue
		}
		if repairs++; repairs > mostRepairs {
			return false
		}
		out, end := repaired(rest, cut)
		wanted := kind != jsonx.Array || rest[0] == '['
		if at += end; out == nil || wanted && !yield(candidate{json: out, repaired: true}) {
			return false
		}
	}
	return false
}

func indexAny(b []byte, chars string) int {
	if chars == "" {
		return -1
	}
	return bytes.IndexAny(b, chars)
}

// isBeginning reports whether a text begins like an object with a member, or like an array with an element that is no word.
func isBeginning(b []byte) bool {
	r := repairer{in: b, at: 1}
	r.blank()
	switch {
	case !r.more():
		return true
	case b[0] == '[':
		return bytes.IndexByte([]byte(`{["'-]`), b[r.at]) >= 0 || isDigit(b[r.at])
	case b[r.at] == '}', r.quote() != "":
		return true
	}
	n := nameEnd(b[r.at:])
	r.at += n
	r.blank()
	return n > 0 && (!r.more() || b[r.at] == ':')
}

// startsOf are the bytes at which a value of a kind is looked for, of those that end by themselves.
func startsOf(kind jsonx.Kind) string {
	switch kind {
	case jsonx.Object:
		return "{"
	case jsonx.Array, jsonx.Invalid: // an object is passed over as a whole
		return "{["
	case jsonx.Null, jsonx.Bool, jsonx.Number, jsonx.String:
	}
	return ""
}

// nestedEnd is where the object or array that a text begins with is closed, 0 for nowhere. Brackets in strings do not count.
func nestedEnd(b []byte) int {
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		return 0
	}
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}
