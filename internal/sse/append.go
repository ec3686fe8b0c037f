package sse

import "bytes"

// Heartbeat is the comment line that keeps an idle stream alive. No blank line follows: that would be an empty event, which breaks some clients.
// Write it between frames only.
const Heartbeat = ": heartbeat\n"

// AppendEvent appends a frame; without a name it has no event field. Data with several lines becomes several fields.
func AppendEvent(dst []byte, event string, data []byte) []byte {
	if event != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, event...)
		dst = append(dst, '\n')
	}
	for {
		line, rest, more := cutLine(data)
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}

// AppendComment appends text as one comment line, without a blank line after it. Write it between frames only. Line ends
// inside text become spaces.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	for _, c := range []byte(text) {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\n')
}

// cutLine splits b at its first line end.
func cutLine(b []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil, false
	}
	line, rest = b[:i], b[i+1:]
	if b[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest, true
}
