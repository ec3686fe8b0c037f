package jsonx

import "math"

// Documents are walked several times. Scan notes where the long strings of a large one are, so that a walk does not read their text again.
const (
	largeDoc   = 8 << 10 // bytes of a document that is large
	longString = 256     // bytes of a string that is long, with its quotes
)

// span is where a long string is, with its quotes.
type span struct{ start, end int32 }

// noteLong has the scanner note the long strings of a large text.
func (s *scanner) noteLong() {
	if len(s.b) >= largeDoc && len(s.b) <= math.MaxInt32 {
		s.long = make([]span, 0, 1+len(s.b)/largeDoc)
	}
}

// note notes a string that is long. Of a text that is not large there is no room for any.
func (s *scanner) note(start, end int) {
	if end-start >= longString && s.long != nil {
		s.long = append(s.long, span{int32(start), int32(end)}) //nolint:gosec // see noteLong
	}
}

// shared is the index of the place of all Values of a document.
const shared = -1

// docPlace is that place, nil if there are no long strings.
func (s *scanner) docPlace() *place {
	if len(s.long) == 0 {
		return nil
	}
	return &place{parser: &Parser{long: s.long}, index: shared}
}

// cursor finds the ends of values, from left to right in a text or a part of it.
type cursor struct {
	long []span // that may follow; none of a text of which they were not noted
	from int    // where the part begins in the text
}

// cursor is at the beginning of v.
func (v Value) cursor() cursor {
	if v.place == nil {
		return cursor{}
	}
	long := v.place.parser.long
	low, high := 0, len(long)
	for low < high {
		if middle := (low + high) / 2; int(long[middle].start) < v.At {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return cursor{long[low:], v.At}
}

// part is a value inside of v, for which no place of its own was noted.
func (v Value) part(start, end int) Value {
	p := v.place
	if p.isOwn() {
		p = nil
	}
	return Value{v.Raw[start:end], v.At + start, p}
}

// skipString is skipString for a string of the part.
func (c *cursor) skipString(b []byte, i int) int {
	at := c.from + i
	for len(c.long) > 0 && int(c.long[0].start) < at {
		c.long = c.long[1:]
	}
	if len(c.long) == 0 || int(c.long[0].start) != at {
		return skipString(b, i)
	}
	return int(c.long[0].end) - c.from
}

// skipValue returns where the value at i ends, by its brackets and quotes alone; i itself when no value starts there.
func (c *cursor) skipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return c.skipString(b, i)
	case '{', '[':
		return c.skipNested(b, i)
	}
	for i < len(b) && !endsScalar[b[i]] {
		i++
	}
	return i
}

func (c *cursor) skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = c.skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

var endsScalar = func() (t [256]bool) {
	for _, c := range []byte(" \t\r\n,:]}") {
		t[c] = true
	}
	return t
}()
