package jsonx

// Parser validates one text after another, as Parse does, and records the places of members and elements, so that walking its Values does not read
// the text again. It is for small texts that are walked immediately, such as the events of a stream; a large one, or one with many values, is read as
// by Parse. Its Values are valid until its next call. The zero value is ready. Not safe for concurrent use.
type Parser struct {
	places []place // of a text's values, in order of their start
	long   []span  // of a document
	whole  place   // of a document's Values without a place of their own
}

// place is the position of a value, and of its key.
type place struct {
	parser      *Parser // owner of the places
	index       int32   // index in places, or shared
	next        int32   // index of the first place after everything inside this one
	key, keyEnd int32   // inside the quotes; keyEnd is 0 for a key with escapes
	start, end  int32
}

// Limits of a Parser's memory. An event of a stream has some dozens of values.
const (
	fewPlaces  = 32      // initially
	manyPlaces = 1024    // at most
	largeText  = 1 << 20 // bytes from which places are not recorded
)

// Parse validates b as exactly one JSON value of any kind and returns it. The error is a *SyntaxError.
func (p *Parser) Parse(b []byte) (Value, error) {
	s := scanner{b: b}
	if len(b) < largeText {
		s.places = p.grown(fewPlaces)
	}
	start := skipSpace(b, 0)
	s.begin(start)
	end := s.value(start, 1, nil)
	if end < 0 || !s.ends(end) {
		return Value{}, s.error()
	}
	s.finish(0, end)
	v := Value{Raw: b[start:end], At: start}
	switch {
	case s.places == nil:
	case s.noted <= len(s.places):
		v.place = &p.places[0]
	case s.noted <= manyPlaces: // the next similar text will have room
		p.grown(s.noted)
	}
	return v, nil
}

// grown returns a slice of at least n places.
func (p *Parser) grown(n int) []place {
	if len(p.places) < n {
		p.places = make([]place, (n+fewPlaces-1)/fewPlaces*fewPlaces)
		for i := range p.places {
			p.places[i].parser, p.places[i].index = p, int32(i)
		}
	}
	return p.places
}

// begin records the start of a value, if there is room, and returns its index.
func (s *scanner) begin(start int) int {
	if s.places == nil {
		return 0
	}
	n := s.noted
	s.noted++
	if n == len(s.places) {
		s.morePlaces()
	}
	if n < len(s.places) {
		s.places[n].start = int32(start) //nolint:gosec // in a text that is not large
	}
	return n
}

// beginMember records the start of a member's value.
func (s *scanner) beginMember(key, start int, plain bool) int {
	n := s.begin(start)
	if n < len(s.places) {
		end := 0
		if plain {
			for end = start - 1; s.b[end] != '"'; end-- { // back over the colon
			}
		}
		s.places[n].key, s.places[n].keyEnd = int32(key+1), int32(end) //nolint:gosec // in a text that is not large
	}
	return n
}

// finish records the end of a value.
func (s *scanner) finish(n, end int) {
	if n < len(s.places) {
		s.places[n].end, s.places[n].next = int32(end), int32(s.noted) //nolint:gosec // in a text that is not large
	}
}

// value returns the value of a place, inside a text that starts at from.
func (p *place) value(text Raw, from int32) Value {
	return Value{Raw: text[p.start-from : p.end-from], At: int(p.start), place: p}
}

// isOwn reports whether it is the place of one Value, followed by those of the values inside it.
func (p *place) isOwn() bool { return p != nil && p.index != shared }

// members is Value.Members for the object at this place, with text raw.
func (p *place) members(raw Raw, yield func(key []byte, m Value) bool) {
	places, from := p.parser.places, p.start
	for i, end := p.index+1, p.next; i < end; {
		at := &places[i]
		i = at.next
		var key []byte
		if at.keyEnd > 0 {
			key = raw[at.key-from : at.keyEnd-from]
		} else {
			key, _, _ = readKey(raw, int(at.key-from)-1)
		}
		if !yield(key, at.value(raw, from)) {
			return
		}
	}
}

// elements is Value.Each for the array at this place.
func (p *place) elements(raw Raw, yield func(i int, e Value) bool) {
	places := p.parser.places
	for i, end, n := p.index+1, p.next, 0; i < end; n++ {
		at := &places[i]
		i = at.next
		if !yield(n, at.value(raw, p.start)) {
			return
		}
	}
}
