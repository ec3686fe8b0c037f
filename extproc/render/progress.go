package render

import (
	"strconv"
	"time"
)

// bytesPerToken is the usual length of a token in bytes.
const bytesPerToken = 4

// progressInterval is the interval of progress lines.
const progressInterval = time.Second

// Progress counts hidden reasoning for progress lines. The zero value is ready to use. Not safe for concurrent use.
type Progress struct {
	started, lastSent time.Time
	bytes             int
}

// Add counts a piece of reasoning, and reports whether a progress line is due: for the first piece, then once a second.
func (p *Progress) Add(now time.Time, text []byte) (due bool) {
	if p.bytes += len(text); p.started.IsZero() {
		p.started = now
	}
	if due = p.lastSent.IsZero() || now.Sub(p.lastSent) >= progressInterval; due {
		p.lastSent = now
	}
	return due
}

// Started reports whether there was any reasoning.
func (p *Progress) Started() bool { return !p.started.IsZero() }

// Line returns the progress line: "thinking… 12s, about 340 tokens". The number of tokens is estimated from the length of the text.
func (p *Progress) Line(now time.Time) string {
	b := strconv.AppendInt([]byte("thinking… "), int64(now.Sub(p.started)/time.Second), 10)
	b = append(b, 's')
	if n := p.bytes / bytesPerToken; n > 0 {
		b = append(strconv.AppendInt(append(b, ", about "...), int64(n), 10), " tokens"...)
	}
	return string(b)
}
