package jsonx

import (
	"math"
	"slices"
	"sync"
)

// Documents are walked several times. Scan records the values of a large one, if they are not too many, and its long strings, so that a walk can skip
// their text.
const (
	largeDoc      = 8 << 10 // bytes from which a document is large
	longString    = 256     // bytes from which a string is long, with its quotes
	bytesPerPlace = 64      // the values of a document with fewer bytes per value are not recorded
)

// span is the position of a long string, with its quotes.
type span struct{ start, end int32 }

// drafts are reused slices in which the values of large texts are recorded, as long as their number is unknown.
var drafts = sync.Pool{New: func() any { return &draft{make([]place, 1024)} }}

type draft struct{ places []place }

// maxDraft is the maximum number of values in a draft that is reused.
const maxDraft = 1 << 16

// noteAll makes the scanner record the values and the long strings of a large text.
func (s *scanner) noteAll() {
	if len(s.b) >= largeDoc && len(s.b) <= math.MaxInt32 {
		s.long = make([]span, 0, 1+len(s.b)/largeDoc)
		s.draft, _ = drafts.Get().(*draft)
		s.maxPlaces = len(s.b) / bytesPerPlace
		s.places = s.draft.places[:min(len(s.draft.places), s.maxPlaces)]
	}
}

// morePlaces makes room for more values, if they are not too many.
func (s *scanner) morePlaces() {
	if len(s.places) < s.maxPlaces {
		more := make([]place, min(2*len(s.places), s.maxPlaces))
		copy(more, s.places)
		s.places = more
		if len(more) <= maxDraft {
			s.draft.places = more
		}
	}
}

// note records a long string. In a text that is not large the list has no room.
func (s *scanner) note(start, end int) {
	if end-start >= longString && s.long != nil {
		s.long = append(s.long, span{int32(start), int32(end)}) //nolint:gosec // see noteLong
	}
}

// shared is the index of Parser.whole.
const shared = -1

// parser returns what was recorded of a document; nil for nothing.
func (s *scanner) parser() *Parser {
	var places []place
	if s.noted <= len(s.places) {
		places = slices.Clone(s.places[:s.noted])
	}
	if len(places) == 0 && len(s.long) == 0 {
		return nil
	}
	p := &Parser{places: places, long: s.long}
	p.whole = place{parser: p, index: shared}
	for i := range places {
		places[i].parser, places[i].index = p, int32(i)
	}
	return p
}

// placeOf returns the place of a top-level member's value.
func (p *Parser) placeOf(m *Member) *place {
	switch {
	case p == nil:
		return nil
	case m.place > 0 && m.place <= len(p.places):
		return &p.places[m.place-1]
	}
	return &p.whole
}

// cursor finds the ends of values, from left to right in a text or a part of it.
type cursor struct {
	long []span // long strings that may follow; none if they were not recorded
	from int    // offset of the part in the text
}

// cursor returns a cursor at the start of v.
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

// part returns a value inside v without a recorded place of its own.
func (v Value) part(start, end int) Value {
	p := v.place
	if p.isOwn() {
		if p = &p.parser.whole; p.parser == nil { // nothing else was recorded
			p = nil
		}
	}
	return Value{v.Raw[start:end], v.At + start, p}
}

// skipString is the function skipString for a string of the part.
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

// skipValue returns the end of the value at i, by its brackets and quotes alone; i itself if no value starts there.
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
