package sse

import "bytes"

var byteOrderMark = []byte("\xef\xbb\xbf")

// parse reads the fields of a complete frame.
func (s *Scanner) parse(raw []byte) Frame {
	f := Frame{Raw: raw, DataAt: -1}
	b := raw
	if !s.started {
		b = bytes.TrimPrefix(b, byteOrderMark)
	}
	ends := lineEnds{b: b, lf: -1, cr: -1}
	joinedAt := -1
	for i := 0; i < len(b); {
		end := ends.next(i)
		name, value := field(b[i:end])
		switch string(name) {
		case "event":
			f.Event = value
		case "data":
			switch {
			case f.Data == nil:
				f.Data, f.DataAt = value, len(raw)-len(b)+end-len(value)
			case joinedAt < 0:
				joinedAt = len(s.joined)
				s.joined = append(append(append(s.joined, f.Data...), '\n'), value...)
			default:
				s.joined = append(append(s.joined, '\n'), value...)
			}
		}
		i = end + 1
	}
	if joinedAt >= 0 {
		f.Data, f.DataAt = s.joined[joinedAt:len(s.joined):len(s.joined)], -1
	}
	return f
}

// plainFrame parses the frame at from in one pass and returns its end, for the usual case: a chunk without CRs that has the whole frame, with at
// most one line of data. It returns 0 for any other.
func plainFrame(chunk []byte, from int) (f Frame, to int) {
	f.DataAt = -1
	for i := from; ; {
		n := bytes.IndexByte(chunk[i:], '\n')
		if n < 0 {
			return f, 0
		}
		end := i + n
		line := chunk[i:end:end]
		i = end + 1
		switch {
		case n == 0:
			f.Raw = chunk[from:i:i]
			return f, i
		case n > len("data:") && string(line[:len("data:")]) == "data:":
			if f.Data != nil {
				return f, 0
			}
			f.Data = line[len("data:"):]
			if f.Data[0] == ' ' {
				f.Data = f.Data[1:]
			}
			f.DataAt = end - len(f.Data) - from
		default:
			switch name, value := field(line); string(name) {
			case "event":
				f.Event = value
			case "data":
				return f, 0
			}
		}
	}
}

// field splits a line at its colon, and takes one space from the value. A comment has no name; neither value is nil.
func field(line []byte) (name, value []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found {
		return line, line[len(line):]
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}
