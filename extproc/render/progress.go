package render

import (
	"strconv"
	"time"
)

// bytesPerToken is the usual length of a token in bytes.
const bytesPerToken = 4

// progressEvery is how much time lies between two signs of life.
const progressEvery = time.Second

// Progress counts the thoughts of an answer that nobody shows, and says from time to time how far they are. The zero value is ready. Not safe
// for concurrent use.
type Progress struct {
	began, told time.Time
	bytes       int
}

// Add counts a piece of a thought, and reports whether a sign of it is due: of the first piece at once, later once a second.
func (p *Progress) Add(now time.Time, text []byte) (due bool) {
	if p.bytes += len(text); p.began.IsZero() {
		p.began = now
	}
	if due = p.told.IsZero() || now.Sub(p.told) >= progressEvery; due {
		p.told = now
	}
	return due
}

// Thinks reports whether a thought has come.
func (p *Progress) Thinks() bool { return !p.began.IsZero() }

// Line is the sign, of one line: "thinking… 12s, about 340 tokens". The number of tokens is a guess from the length of the text, and
// left out where there is none.
func (p *Progress) Line(now time.Time) string {
	b := strconv.AppendInt([]byte("thinking… "), int64(now.Sub(p.began)/time.Second), 10)
	b = append(b, 's')
	if n := p.bytes / bytesPerToken; n > 0 {
		b = append(strconv.AppendInt(append(b, ", about "...), int64(n), 10), " tokens"...)
	}
	return string(b)
}
