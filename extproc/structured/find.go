package structured

import (
	"bytes"
	"iter"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

var fence = []byte("```")

// block is the content of a fenced block.
type block struct {
	text   []byte
	end    int  // offset behind the block in the surrounding text
	closed bool // the closing fence is there
}

// search limits the work of searching a text: every unclosed bracket is followed to the end of the text. budget is the number of bytes that
// may still be scanned.
type search struct{ budget int }

// maxScanFactor is how often each byte of a text may be scanned on average.
const maxScanFactor = 64

func newSearch(text []byte) *search { return &search{budget: maxScanFactor * len(text)} }

// exhausted reports whether the budget is used up.
func (s *search) exhausted() bool { return s.budget <= 0 }

// nestedEnd returns the length of the object or array at the start of a text, 0 if it is not closed.
func (s *search) nestedEnd(b []byte) int {
	b = b[:max(0, min(len(b), s.budget))]
	end := nestedEnd(b)
	switch {
	case end > 0:
		s.budget -= end
	case len(b) > 0 && (b[0] == '{' || b[0] == '['):
		s.budget -= len(b)
	}
	return end
}

// fences yields the fenced blocks of a text, in order.
func (s *search) fences(text []byte) iter.Seq[block] {
	return func(yield func(block) bool) {
		for at := 0; !s.exhausted(); {
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

// onlyFence returns the content of a text that is a single fenced block; nil otherwise.
func onlyFence(text []byte) []byte {
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

// tagEnd returns the length of a block's language name.
func tagEnd(b []byte) int {
	n := 0
	for n < len(b) && (b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z' || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	return n
}

// fenceEnd returns the offset of a block's closing fence: the first one outside of a JSON value, or any; -1 if there is none.
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

// candidate is a part of a text that may be the answer, as JSON.
type candidate struct {
	json     []byte
	repaired bool
}

// Limits of the offsets of a text that are tried as the start of an answer.
const (
	maxStarts  = 256
	maxRepairs = 16
)

// candidates yields the parts of a text that may be the answer, the most likely one first.
func candidates(text []byte, kind jsonx.Kind, cut bool) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		if isOneValue(text, kind) && (!cut || isDelimited(text)) {
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
		if s.nested(text, kind, cut, yield) && jsonx.Valid(text) == nil && (!cut || isDelimited(text)) {
			yield(candidate{json: text}) // of another type, which is reported
		}
	}
}

// fenced returns the content of a block if it is a single value.
func fenced(b []byte, kind jsonx.Kind) (c candidate, ok bool) {
	if isOneValue(b, kind) {
		return candidate{json: b}, true
	}
	if len(b) == 0 || strings.IndexByte(openingBytes(kind), b[0]) < 0 {
		return c, false
	}
	out, n := repair(b, true) // a closed block was not cut off
	return candidate{json: out, repaired: true}, out != nil && n == len(b)
}

// nested yields the outermost objects or arrays of a text. One that cannot be parsed ends the search, because what is nested in it is not
// the answer. more is false if the search ended.
func (s *search) nested(text []byte, kind jsonx.Kind, cut bool, yield func(candidate) bool) (more bool) {
	starts, repairs := openingBytes(kind), 0
	for at, tries := 0, 0; tries < maxStarts && !s.exhausted(); tries++ {
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
		if !looksLikeJSON(rest) {
			at++
			continue
		}
		if repairs++; repairs > maxRepairs {
			return false
		}
		out, end := repair(rest, cut)
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

// looksLikeJSON reports whether a text starts like an object with a member, or like an array whose first element is not a bare word.
func looksLikeJSON(b []byte) bool {
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

// openingBytes returns the bytes with which a value of a kind starts; "" for scalars, which are not searched for.
func openingBytes(kind jsonx.Kind) string {
	switch kind {
	case jsonx.Object:
		return "{"
	case jsonx.Array, jsonx.Invalid: // objects too, to skip what is inside of them
		return "{["
	case jsonx.Null, jsonx.Bool, jsonx.Number, jsonx.String:
	}
	return ""
}

// nestedEnd returns the length of the object or array at the start of a text, 0 if it is not closed. Brackets in strings do not count.
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
