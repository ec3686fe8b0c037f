package toolcall

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
)

// Limits of what is held back of an answer until it is known whether it is a call.
const (
	maxHeld      = 1 << 20 // bytes of one call
	maxCalls     = 1024    // calls in one answer
	maxSpace     = 1024    // bytes of white space before a call
	maxRescanned = 4 << 20 // bytes that were scanned as a call and then again as text; beyond it, everything is text
)

// usage counts toward the limits of an answer. All its finders share it.
type usage struct {
	calls, rescanned int
	heldLimit        int // replaces maxHeld in tests
}

// maxHeld is the limit of held text in bytes.
func (s *usage) maxHeld() int { return cmp.Or(s.heldLimit, maxHeld) }

// maxSpace is the limit of held white space in bytes.
func (s *usage) maxSpace() int { return min(maxSpace, s.maxHeld()/4) }

func (s *usage) exhausted() bool { return s.calls >= maxCalls || s.rescanned >= maxRescanned }

// decision is how the start of a text is classified.
type decision uint8

const (
	undecided decision = iota // more text is needed
	plainText                 // text to forward
	toolCalls                 // tool calls, or white space between them
)

// finder finds calls in a text that arrives in pieces. It keeps its state about the undecided text.
type finder interface {
	// next classifies the first n bytes of b, which starts with the previously undecided text. At the end of the text nothing stays
	// undecided.
	next(b []byte, end bool) (v decision, n int, found []chat.ToolCall)
}

func newFinder(f Format, ts tools, s *usage) finder {
	if f == JSON {
		return &jsonFinder{tools: ts, usage: s, lineStart: true}
	}
	return &tagFinder{tools: ts, usage: s, allowBare: f == Qwen, atStart: true}
}

// splitter splits a text into plain text and calls.
type splitter struct {
	find    finder
	held    []byte // undecided text of earlier pieces
	decided int    // bytes of held that are decided
	rest    []byte // of the current piece
	inHeld  bool   // rest is part of held
}

// feed adds a piece of text; call next until it returns undecided.
func (s *splitter) feed(text []byte) {
	if s.decided > 0 {
		s.held = append(s.held[:0], s.held[s.decided:]...)
		s.decided = 0
	}
	if s.inHeld = len(s.held) > 0; s.inHeld {
		s.held = append(s.held, text...)
		text = s.held
	}
	s.rest = text
}

// next returns the next part of the text, or its calls. The bytes are valid until the next feed.
func (s *splitter) next(end bool) (v decision, part []byte, found []chat.ToolCall) {
	if len(s.rest) == 0 {
		return undecided, nil, nil
	}
	v, n, found := s.find.next(s.rest, end)
	if v == undecided {
		if !s.inHeld {
			s.held = append(s.held[:0], s.rest...)
		}
		s.rest = nil
		return v, nil, nil
	}
	part, s.rest = s.rest[:n], s.rest[n:]
	if s.inHeld {
		s.decided += n
	}
	return v, part, found
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// spaces is the end of the white space at b[i:].
func spaces(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// match compares b[i:] with a tag: whole is true if b[i:] starts with the tag, part if b ends within it.
func match(b []byte, i int, tag string) (whole, part bool) {
	n := min(len(b)-i, len(tag))
	if string(b[i:i+n]) != tag[:n] {
		return false, false
	}
	return n == len(tag), n < len(tag)
}

// bracketScanner finds the end of a JSON value that arrives in pieces by counting brackets.
type bracketScanner struct {
	depth    int
	inString bool // inside a string
	escaped  bool // after a backslash
}

// scan continues at b[i]. done is true if at is behind the closing bracket, bad if a tag or fence starts at at, which JSON cannot contain.
func (o *bracketScanner) scan(b []byte, i int) (at int, done, bad bool) {
	for ; i < len(b); i++ {
		c := b[i]
		if o.inString {
			switch {
			case o.escaped:
				o.escaped = false
			case c == '\\':
				o.escaped = true
			case c == '"':
				o.inString = false
			}
			continue
		}
		switch c {
		case '"':
			o.inString = true
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
