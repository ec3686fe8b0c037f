package toolcall

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
)

// Limits on what is held back of an answer until it is known whether it calls a tool.
const (
	maxHeld  = 1 << 20 // bytes of one call
	maxCalls = 1024    // of one answer
	maxSpace = 1024    // white space before a call that may belong to it
	maxAgain = 4 << 20 // bytes that are looked at twice, since they were no call after all: what comes after is text
)

// spent is what of the limits an answer has used. All of its finders share it.
type spent struct {
	calls, again int
	held         int // instead of maxHeld, in tests
}

// most is how much is held back.
func (s *spent) most() int { return cmp.Or(s.held, maxHeld) }

// space is how much white space is.
func (s *spent) space() int { return min(maxSpace, s.most()/4) }

func (s *spent) over() bool { return s.calls >= maxCalls || s.again >= maxAgain }

// verdict says what the beginning of a text is.
type verdict uint8

const (
	undecided verdict = iota // more of it must come
	words                    // text, which is passed on
	calls                    // calls of tools, or white space between them that means nothing
)

// finder looks for calls in a text that comes in pieces. It keeps what it learned about the text that it left undecided.
type finder interface {
	// next looks at b, which begins where what was decided before ended, and begins with all that was left undecided. It decides about the
	// first n bytes of it. At the end of the text it leaves nothing undecided.
	next(b []byte, end bool) (v verdict, n int, found []chat.ToolCall)
}

func newFinder(f Format, ts tools, s *spent) finder {
	if f == JSON {
		return &jsonFinder{tools: ts, spent: s, lineStart: true}
	}
	return &tagFinder{tools: ts, spent: s, bare: f == Qwen, fresh: true}
}

// splitter cuts a text into words and calls, wherever its pieces were cut.
type splitter struct {
	find finder
	held []byte // what is not decided
	used int    // how much of held was decided since
	rest []byte // of the piece at hand
	own  bool   // rest lies in held
}

// feed takes the next piece of the text; next then says what it was.
func (s *splitter) feed(text []byte) {
	if s.used > 0 {
		s.held = append(s.held[:0], s.held[s.used:]...)
		s.used = 0
	}
	if s.own = len(s.held) > 0; s.own {
		s.held = append(s.held, text...)
		text = s.held
	}
	s.rest = text
}

// next is the next part of the text: its verdict, its bytes, and the calls that it is. Undecided: there is none yet. The bytes are valid
// until the next feed.
func (s *splitter) next(end bool) (v verdict, part []byte, found []chat.ToolCall) {
	if len(s.rest) == 0 {
		return undecided, nil, nil
	}
	v, n, found := s.find.next(s.rest, end)
	if v == undecided {
		if !s.own {
			s.held = append(s.held[:0], s.rest...)
		}
		s.rest = nil
		return v, nil, nil
	}
	part, s.rest = s.rest[:n], s.rest[n:]
	if s.own {
		s.used += n
	}
	return v, part, found
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// spaces is where the white space at b[i:] ends.
func spaces(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// match compares the text at b[i:] with a tag: whole is true when it is there, part when what there is may become it.
func match(b []byte, i int, tag string) (whole, part bool) {
	n := min(len(b)-i, len(tag))
	if string(b[i:i+n]) != tag[:n] {
		return false, false
	}
	return n == len(tag), n < len(tag)
}

// object follows a JSON value that comes in pieces to its end, by its brackets alone.
type object struct {
	depth   int
	quoted  bool // inside a string
	escaped bool // after a backslash
}

// run goes on at b[i]. It returns where it stands; done: that is after the value's last bracket. bad: a tag begins there, which no JSON
// has outside of its strings.
func (o *object) run(b []byte, i int) (at int, done, bad bool) {
	for ; i < len(b); i++ {
		c := b[i]
		if o.quoted {
			switch {
			case o.escaped:
				o.escaped = false
			case c == '\\':
				o.escaped = true
			case c == '"':
				o.quoted = false
			}
			continue
		}
		switch c {
		case '"':
			o.quoted = true
		case '{', '[':
			o.depth++
		case '}', ']':
			if o.depth--; o.depth <= 0 {
				return i + 1, true, false
			}
		case '<', '`':
			return i, false, true
		}
	}
	return i, false, false
}
