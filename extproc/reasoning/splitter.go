package reasoning

import "bytes"

// part is the kind of a part of a text.
type part uint8

const (
	partNone    part = iota // undecided: more text is needed
	partText                // text of the answer
	partThought             // reasoning
	partMarkup              // a tag, or white space next to one
)

// splitter splits a text that arrives in pieces into text and reasoning. The parts in order are the whole text. Reasoning is emitted as it
// arrives; only what may become the closing tag is held back.
type splitter struct {
	tags     []Tags   // tags that may open reasoning; the first one's closing tag ends reasoning that has no opening tag
	closers  [][]byte // closing tags of tool calls in the text: reasoning may start again behind one
	state    state
	closeTag []byte // closing tag of the current reasoning

	pending      []byte // released text to emit before rest
	rest         []byte // of the current piece
	held         []byte // white space and the start of a tag
	closeMatched int    // bytes of closeTag at the end of the last piece
	closerPrefix []byte // end of emitted text that may become a closer
}

// state is the state of the splitter.
type state uint8

const (
	atStart       state = iota // only white space so far: a tag may open reasoning
	implicitStart              // the same, within reasoning whose opening tag is in the prompt
	afterOpen                  // behind an opening tag
	inThought
	afterClose // behind a closing tag
	inText
)

// feed adds a piece of text; call next until it returns partNone.
func (s *splitter) feed(text []byte) { s.rest = text }

// next returns the next part. With end, nothing is held back. The bytes are valid until the next feed and must not be modified.
func (s *splitter) next(end bool) (part, []byte) {
	for len(s.pending)+len(s.rest) > 0 {
		b := &s.rest
		if len(s.pending) > 0 {
			b = &s.pending
		}
		p, text := partNone, []byte(nil)
		switch s.state {
		case inText:
			p, text = partText, s.textPart(b)
		case inThought:
			p, text = s.thoughtPart(b)
		case atStart, implicitStart, afterOpen, afterClose:
			p, text = s.seekTag(b)
		}
		if p != partNone {
			return p, text
		}
	}
	if end {
		return s.flush()
	}
	return partNone, nil
}

// seekTag looks for a tag at the start of b, behind white space.
func (s *splitter) seekTag(b *[]byte) (part, []byte) {
	before, view := len(s.held), *b
	if before > 0 {
		view = append(s.held, view[:min(len(view), maxSpace+maxTag)]...)
	}
	n, undecided := s.matchTag(view)
	switch {
	case undecided && before > 0:
		s.held, *b = view, nil
		return partNone, nil
	case undecided:
		s.held, *b = append(s.held, view...), nil
		return partNone, nil
	case n > 0:
		s.held, *b = nil, (*b)[n-before:]
		return partMarkup, view[:n]
	}
	s.pending, s.held = s.held, nil // not a tag: emitted in the new state
	s.state = s.stateWithoutTag()
	return partNone, nil
}

// matchTag checks whether b starts with a tag. n is the length of the tag with the white space before it, 0 if there is none; on a match the
// state changes. undecided is true if more text is needed.
func (s *splitter) matchTag(b []byte) (n int, undecided bool) {
	i := spaces(b)
	switch {
	case i > maxSpace || s.state == afterClose && i < len(b):
		return 0, false
	case i == len(b):
		return 0, true
	}
	if s.state == implicitStart || s.state == afterOpen {
		whole, some := hasPrefix(b[i:], s.closeTag)
		if whole {
			s.state = afterClose
			return i + len(s.closeTag), false
		}
		undecided = some
	}
	if s.state == atStart || s.state == implicitStart {
		for t := range s.tags {
			whole, some := hasPrefix(b[i:], s.tags[t].open)
			if whole {
				s.state, s.closeTag = afterOpen, s.tags[t].close
				return i + len(s.tags[t].open), false
			}
			undecided = undecided || some
		}
	}
	return 0, undecided
}

// stateWithoutTag is the next state if there is no tag.
func (s *splitter) stateWithoutTag() state {
	if s.state == implicitStart || s.state == afterOpen {
		return inThought
	}
	return inText
}

// thoughtPart returns reasoning up to the closing tag.
func (s *splitter) thoughtPart(b *[]byte) (part, []byte) {
	if s.closeMatched > 0 {
		return s.continueClose(b)
	}
	for i := 0; ; i++ {
		at := bytes.IndexByte((*b)[i:], s.closeTag[0])
		if at < 0 {
			return partThought, take(b, len(*b))
		}
		i += at
		whole, some := hasPrefix((*b)[i:], s.closeTag)
		switch {
		case !whole && !some:
		case i > 0:
			return partThought, take(b, i)
		case whole:
			s.state = afterClose
			return partMarkup, take(b, len(s.closeTag))
		default:
			s.closeMatched, *b = len(*b), nil
			return partNone, nil
		}
	}
}

// continueClose continues a closing tag that started in the last piece. On a mismatch, what was matched may contain another start of the tag.
func (s *splitter) continueClose(b *[]byte) (part, []byte) {
	whole, some := hasPrefix(*b, s.closeTag[s.closeMatched:])
	switch {
	case whole:
		*b = (*b)[len(s.closeTag)-s.closeMatched:]
		s.closeMatched, s.state = 0, afterClose
		return partMarkup, s.closeTag
	case some:
		s.closeMatched += len(*b)
		*b = nil
		return partNone, nil
	}
	by := realign(s.closeTag, s.closeMatched)
	s.closeMatched -= by
	return partThought, s.closeTag[:by]
}

// take removes and returns the first n bytes of a piece.
func take(b *[]byte, n int) (text []byte) {
	text, *b = (*b)[:n], (*b)[n:]
	return text
}

// textPart returns text up to the end of a tool call in it.
func (s *splitter) textPart(b *[]byte) []byte {
	if len(s.closers) == 0 {
		return take(b, len(*b))
	}
	if before := len(s.closerPrefix); before > 0 {
		s.closerPrefix = append(s.closerPrefix, (*b)[:min(len(*b), maxTag)]...)
		n, some := s.matchCloser(s.closerPrefix)
		if some {
			return take(b, len(*b))
		}
		s.closerPrefix = s.closerPrefix[:0]
		if n > 0 {
			s.state = atStart
			return take(b, n-before)
		}
	}
	for i := 0; ; i++ {
		at := bytes.IndexByte((*b)[i:], '<')
		if at < 0 {
			return take(b, len(*b))
		}
		i += at
		n, some := s.matchCloser((*b)[i:])
		switch {
		case n > 0:
			s.state = atStart
			return take(b, i+n)
		case some:
			s.closerPrefix = append(s.closerPrefix, (*b)[i:]...)
			return take(b, len(*b))
		}
	}
}

// matchCloser is the length of the closer at the start of a text; some is true if the text may become one.
func (s *splitter) matchCloser(b []byte) (n int, some bool) {
	for _, c := range s.closers {
		whole, part := hasPrefix(b, c)
		if whole {
			return len(c), false
		}
		some = some || part
	}
	return 0, some
}

// flush returns held text at the end: an incomplete tag is text or reasoning, depending on the state.
func (s *splitter) flush() (part, []byte) {
	held := s.held
	s.held = nil
	switch {
	case s.closeMatched > 0:
		n := s.closeMatched
		s.closeMatched = 0
		return partThought, s.closeTag[:n]
	case len(held) == 0:
		return partNone, nil
	case s.state == atStart:
		if spaces(held) < len(held) {
			s.state = inText
		}
		return partText, held
	case s.state == afterClose, s.state == afterOpen && spaces(held) == len(held):
		return partMarkup, held
	}
	s.state = inThought
	return partThought, held
}

// endText resets the state at the end of a text block. Reasoning ends with it; further text is not reasoning.
func (s *splitter) endText() {
	if s.state != atStart && s.state != implicitStart {
		s.state = inText
	}
	s.closerPrefix = s.closerPrefix[:0]
}

// allowTag lets the next text start with a tag again, after a tool call.
func (s *splitter) allowTag() { s.state = atStart }
