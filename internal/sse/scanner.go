package sse

import (
	"bytes"
	"slices"
)

// DefaultMax is the size in bytes of the longest frame when Scanner.Max is zero.
const DefaultMax = 1 << 20

// Sizes of the first allocations, for the frames that a chunk usually has.
const (
	usualFrame = 256 // bytes
	manyFrames = 64
)

// Frame is one block of a stream: its lines up to and including the blank line that ends it. Its slices are valid until
// the Scanner's next call.
type Frame struct {
	Raw     []byte // the frame's own bytes, line ends included; nil when TooLong
	Event   []byte // the event field's value; nil if there is none
	Data    []byte // the data lines, joined by "\n"; nil if there are none, as in a block of comments
	DataAt  int    // where Data starts in Raw; -1 when several lines were joined, or there are none
	TooLong bool   // the frame was longer than Max and is dropped
}

// Scanner splits a stream into frames. The result does not depend on how the stream is divided into chunks, and the frames' Raw joined are the
// stream, except for frames that were too long. The zero value is ready. Not safe for concurrent use.
//
// A frame that lies inside one chunk aliases that chunk; only a frame that crosses a chunk's end is copied.
type Scanner struct {
	Max int // bytes of the longest frame; zero means DefaultMax

	state    state
	started  bool // the stream's first frame is complete, so a byte order mark is no longer expected
	skipping bool // inside a frame that is too long
	frames   []Frame
	buf      []byte // frames that cross a chunk's end; the unfinished one starts at rest
	rest     int
	joined   []byte // data of several lines
}

// Next returns the frames that chunk completes. Chunk must not change until the following call.
func (s *Scanner) Next(chunk []byte) []Frame {
	s.reuse()
	s.frames = slices.Grow(s.frames, min(1+len(chunk)/usualFrame, manyFrames))
	ends := lineEnds{b: chunk, lf: -1, cr: -1}
	plain := bytes.IndexByte(chunk, '\r') < 0
	for from := 0; from < len(chunk); {
		if plain && s.isBetween() {
			if f, to := plainFrame(chunk, from); to > 0 && s.takes(f.Raw) {
				s.frames, s.started = append(s.frames, f), true
				from = to
				continue
			}
		}
		to, done := s.boundary(&ends, from)
		s.take(chunk[from:to:to], done)
		from = to
	}
	return s.frames
}

// End returns the frame that the stream's end leaves unterminated, if any. It counts as an event, because some servers
// omit the last blank line. The frames of the preceding call of Next stay valid. The Scanner is then ready for another
// stream.
func (s *Scanner) End() []Frame {
	s.frames = s.frames[:0]
	if s.skipping || len(s.buf) > s.rest {
		s.take(nil, true)
	}
	s.state, s.started = lineStart, false
	return s.frames
}

// reuse drops what the last call returned.
func (s *Scanner) reuse() {
	s.frames, s.joined = s.frames[:0], s.joined[:0]
	s.buf = append(s.buf[:0], s.buf[s.rest:]...)
	s.rest = 0
}

// take adds a piece to the unfinished frame and, when done, completes it.
func (s *Scanner) take(piece []byte, done bool) {
	if s.skipping = s.skipping || len(s.buf)-s.rest+len(piece) > s.limit(); s.skipping {
		s.buf = s.buf[:s.rest]
		if done {
			s.frames = append(s.frames, Frame{DataAt: -1, TooLong: true})
			s.skipping, s.started = false, true
		}
		return
	}
	raw := piece
	if !done || len(s.buf) > s.rest {
		s.buf = append(s.buf, piece...)
		raw = s.buf[s.rest:len(s.buf):len(s.buf)]
	}
	if done {
		s.rest = len(s.buf)
		s.frames = append(s.frames, s.parse(raw))
		s.started = true
	}
}

func (s *Scanner) limit() int {
	if s.Max <= 0 {
		return DefaultMax
	}
	return s.Max
}

// isBetween reports whether no frame is unfinished.
func (s *Scanner) isBetween() bool {
	return s.state == lineStart && len(s.buf) == s.rest && !s.skipping
}

// takes reports whether a whole frame can be returned unchanged: it is not too long, and does not begin with a byte order mark.
func (s *Scanner) takes(raw []byte) bool {
	return len(raw) <= s.limit() && (s.started || raw[0] != byteOrderMark[0])
}

// state is the parser's position, by the bytes before the next one.
type state uint8

const (
	lineStart  state = iota // at the start of a line
	inLine                  // the line is not empty
	afterCR                 // CR ended a line; LF would belong to it
	blankCR                 // CR ended a blank line, and with it the frame; LF would belong to it
	afterFrame              // CR CR ended the last frame; LF would belong to the second CR, and is skipped here
)

// boundary returns where in the chunk the bytes from i on stop belonging to the unfinished frame, and whether they complete it.
//
// A stream with bare CRs must not wait for a byte after the CR that ends a frame, so there the frame ends immediately; with other line ends it waits
// for the LF.
func (s *Scanner) boundary(ends *lineEnds, i int) (end int, done bool) {
	for b := ends.b; i < len(b); {
		c := b[i]
		switch s.state {
		case afterFrame, lineStart:
			switch {
			case c == '\n' && s.state == lineStart:
				return i + 1, true
			case c == '\n':
				s.state = lineStart
			case c == '\r':
				s.state = blankCR
			default:
				s.state = inLine
			}
			i++
		case inLine:
			i = ends.next(i)
			switch {
			case i == len(b):
				return i, false
			case b[i] == '\n':
				s.state = lineStart
			default:
				s.state = afterCR
			}
			i++
		case afterCR:
			switch c {
			case '\n':
				s.state = lineStart
			case '\r':
				s.state = afterFrame
				return i + 1, true
			default:
				s.state = inLine
			}
			i++
		case blankCR:
			s.state = lineStart
			if c == '\n' {
				i++
			}
			return i, true
		}
	}
	return i, false
}

// lineEnds finds line ends in b with one pass for each of the two bytes, whichever of them the stream uses.
type lineEnds struct {
	b      []byte
	lf, cr int
}

// next returns the offset of the first CR or LF at or after i; len(b) if there is none.
func (e *lineEnds) next(i int) int {
	if e.lf < i {
		e.lf = indexFrom(e.b, i, '\n')
	}
	if e.cr < i {
		// Almost no stream has a CR: search the current line only, unless there is one.
		if cr := indexFrom(e.b[:e.lf], i, '\r'); cr < e.lf {
			e.cr = cr
		} else {
			return e.lf
		}
	}
	return min(e.lf, e.cr)
}

func indexFrom(b []byte, i int, c byte) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
}
