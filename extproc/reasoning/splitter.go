package reasoning

import "bytes"

// part says what a part of a text is.
type part uint8

const (
	nothing  part = iota // there is none yet: more of the text must come
	words                // the model says it
	thoughts             // the model thinks it
	frame                // a tag, or white space beside one that means nothing
)

// splitter cuts a text into words and thoughts, wherever its pieces were cut. Its parts, in order, are the text. Thoughts are
// told as they come: of them, no more is held back than what may become the tag that ends them.
type splitter struct {
	tags    []Tags   // that may open thoughts; the first is that of thoughts which nothing opened
	closers [][]byte // that end a call of a tool which is written in the text: behind one, a tag may open thoughts again
	state   state
	shut    []byte // the tag that ends the thoughts

	first []byte // what was held back and is to be told, before rest
	rest  []byte // of the piece at hand
	held  []byte // white space and the beginning of a tag
	came  int    // bytes of shut that the piece before ended in
	tail  []byte // of words that were told: what may become a closer
}

// state is where in a text the splitter stands.
type state uint8

const (
	leading  state = iota // nothing but white space came: a tag may open thoughts
	opened                // the same, inside of thoughts that the model's prompt opened
	entering              // behind a tag that opened thoughts
	thinking
	leaving // behind a tag that ended thoughts
	talking
)

// feed takes the next piece of the text; next then says what it was.
func (s *splitter) feed(text []byte) { s.rest = text }

// next is the next part of the text. At its end, nothing is held back. The bytes are valid until the next feed, and not to be changed.
func (s *splitter) next(end bool) (part, []byte) {
	for len(s.first)+len(s.rest) > 0 {
		b := &s.rest
		if len(s.first) > 0 {
			b = &s.first
		}
		p, text := nothing, []byte(nil)
		switch s.state {
		case talking:
			p, text = words, s.talk(b)
		case thinking:
			p, text = s.think(b)
		case leading, opened, entering, leaving:
			p, text = s.seek(b)
		}
		if p != nothing {
			return p, text
		}
	}
	if end {
		return s.flush()
	}
	return nothing, nil
}

// seek looks for the tag that may stand at the beginning of b, behind white space.
func (s *splitter) seek(b *[]byte) (part, []byte) {
	before, view := len(s.held), *b
	if before > 0 {
		view = append(s.held, view[:min(len(view), maxSpace+maxTag)]...)
	}
	n, undecided := s.look(view)
	switch {
	case undecided && before > 0:
		s.held, *b = view, nil
		return nothing, nil
	case undecided:
		s.held, *b = append(s.held, view...), nil
		return nothing, nil
	case n > 0:
		s.held, *b = nil, (*b)[n-before:]
		return frame, view[:n]
	}
	s.first, s.held = s.held, nil // it is looked at as what it is
	s.state = s.without()
	return nothing, nil
}

// look decides about a beginning: n bytes of it are a tag with the white space around it, behind which the state is another one; or
// none, or more must come.
func (s *splitter) look(b []byte) (n int, undecided bool) {
	i := spaces(b)
	switch {
	case i > maxSpace || s.state == leaving && i < len(b):
		return 0, false
	case i == len(b):
		return 0, true
	}
	if s.state == opened || s.state == entering {
		whole, some := begins(b[i:], s.shut)
		if whole {
			s.state = leaving
			return i + len(s.shut), false
		}
		undecided = some
	}
	if s.state == leading || s.state == opened {
		for t := range s.tags {
			whole, some := begins(b[i:], s.tags[t].open)
			if whole {
				s.state, s.shut = entering, s.tags[t].close
				return i + len(s.tags[t].open), false
			}
			undecided = undecided || some
		}
	}
	return 0, undecided
}

// without is the state of a text that does not begin with a tag.
func (s *splitter) without() state {
	if s.state == opened || s.state == entering {
		return thinking
	}
	return talking
}

// think tells thoughts up to the tag that ends them.
func (s *splitter) think(b *[]byte) (part, []byte) {
	if s.came > 0 {
		return s.goOn(b)
	}
	for i := 0; ; i++ {
		at := bytes.IndexByte((*b)[i:], s.shut[0])
		if at < 0 {
			return thoughts, cut(b, len(*b))
		}
		i += at
		whole, some := begins((*b)[i:], s.shut)
		switch {
		case !whole && !some:
		case i > 0:
			return thoughts, cut(b, i)
		case whole:
			s.state = leaving
			return frame, cut(b, len(s.shut))
		default:
			s.came, *b = len(*b), nil
			return nothing, nil
		}
	}
}

// goOn goes on with a tag in which the piece before ended. A byte that does not fit may begin another one.
func (s *splitter) goOn(b *[]byte) (part, []byte) {
	whole, some := begins(*b, s.shut[s.came:])
	switch {
	case whole:
		*b = (*b)[len(s.shut)-s.came:]
		s.came, s.state = 0, leaving
		return frame, s.shut
	case some:
		s.came += len(*b)
		*b = nil
		return nothing, nil
	}
	by := shift(s.shut, s.came)
	s.came -= by
	return thoughts, s.shut[:by]
}

// cut takes the first n bytes off a piece.
func cut(b *[]byte, n int) (text []byte) {
	text, *b = (*b)[:n], (*b)[n:]
	return text
}

// talk tells words, up to the end of a call of a tool among them.
func (s *splitter) talk(b *[]byte) []byte {
	if len(s.closers) == 0 {
		return cut(b, len(*b))
	}
	if before := len(s.tail); before > 0 {
		s.tail = append(s.tail, (*b)[:min(len(*b), maxTag)]...)
		n, some := s.closer(s.tail)
		if some {
			return cut(b, len(*b))
		}
		s.tail = s.tail[:0]
		if n > 0 {
			s.state = leading
			return cut(b, n-before)
		}
	}
	for i := 0; ; i++ {
		at := bytes.IndexByte((*b)[i:], '<')
		if at < 0 {
			return cut(b, len(*b))
		}
		i += at
		n, some := s.closer((*b)[i:])
		switch {
		case n > 0:
			s.state = leading
			return cut(b, i+n)
		case some:
			s.tail = append(s.tail, (*b)[i:]...)
			return cut(b, len(*b))
		}
	}
}

// closer is the length of the closer that a text begins with, and whether it may become one.
func (s *splitter) closer(b []byte) (n int, some bool) {
	for _, c := range s.closers {
		whole, part := begins(b, c)
		if whole {
			return len(c), false
		}
		some = some || part
	}
	return 0, some
}

// flush tells what was held back when the text ended: the beginning of a tag is what the text was so far.
func (s *splitter) flush() (part, []byte) {
	held := s.held
	s.held = nil
	switch {
	case s.came > 0:
		n := s.came
		s.came = 0
		return thoughts, s.shut[:n]
	case len(held) == 0:
		return nothing, nil
	case s.state == leading:
		if spaces(held) < len(held) {
			s.state = talking
		}
		return words, held
	case s.state == leaving, s.state == entering && spaces(held) == len(held):
		return frame, held
	}
	s.state = thinking
	return thoughts, held
}

// ended notes that the text is at its end. Thoughts are, too; if more text comes, it is words.
func (s *splitter) ended() {
	if s.state != leading && s.state != opened {
		s.state = talking
	}
	s.tail = s.tail[:0]
}

// again notes that the model called a tool: a tag may open thoughts once more.
func (s *splitter) again() { s.state = leading }
