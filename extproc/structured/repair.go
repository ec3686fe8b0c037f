package structured

import (
	"bytes"
	"unicode/utf8"

	"bardo.money/gateway/internal/jsonx"
)

// repair parses the value at the start of a text, corrects common syntax errors, and returns valid JSON and the number of bytes that it
// read; nil if it cannot be parsed. It corrects:
//
//   - a comma before a closing bracket, or none between two members or elements;
//   - single quotes, typographic quotes or backticks around a string; a name without quotes;
//   - comments: // and # to the end of the line, /* … */;
//   - True, False and None, as Python writes them; undefined;
//   - line breaks and tabs inside a string, and a backslash before a character that needs none;
//   - a plus sign before a number, and digits missing on one side of its point;
//   - missing quotes and brackets at the end of the text, unless the answer was cut off.
//
// Numbers keep their digits.
func repair(text []byte, cut bool) (out []byte, n int) {
	r := repairer{in: text, cut: cut}
	if !r.value(0) || jsonx.Valid(r.out) != nil {
		return nil, r.at
	}
	return r.out, r.at
}

// maxRepairDepth is the deepest nesting of a text that is repaired.
const maxRepairDepth = 128

// repairer reads one value of almost valid JSON and writes valid JSON.
type repairer struct {
	in  []byte
	at  int
	out []byte
	cut bool // the answer was cut off: a missing end is not repaired
}

func (r *repairer) more() bool { return r.at < len(r.in) }

// ends reports whether the text may end here.
func (r *repairer) ends() bool { return !r.more() && !r.cut }

func (r *repairer) value(depth int) bool {
	r.blank()
	if !r.more() || depth > maxRepairDepth {
		return false
	}
	switch c := r.in[r.at]; {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case r.quote() != "":
		return r.text()
	case c == '-' || c == '+' || c == '.' || isDigit(c):
		return r.number()
	}
	return r.word()
}

func (r *repairer) object(depth int) bool {
	r.at++
	r.out = append(r.out, '{')
	for n := 0; ; n++ {
		closed, ok := r.next('}', n)
		if !ok {
			return false
		}
		if closed {
			return true
		}
		if !r.key() || !r.colon() || !r.value(depth+1) {
			return false
		}
	}
}

func (r *repairer) array(depth int) bool {
	r.at++
	r.out = append(r.out, '[')
	for n := 0; ; n++ {
		closed, ok := r.next(']', n)
		if !ok {
			return false
		}
		if closed {
			return true
		}
		if !r.value(depth + 1) {
			return false
		}
	}
}

// next advances to the n-th element of an object or array, or past its end.
func (r *repairer) next(end byte, n int) (closed, ok bool) {
	r.blank()
	if n > 0 && r.more() && r.in[r.at] == ',' {
		r.at++
		r.blank()
	}
	switch {
	case r.ends():
		r.out = append(r.out, end)
		return true, true
	case !r.more():
		return false, false
	case r.in[r.at] == end:
		r.at++
		r.out = append(r.out, end)
		return true, true
	}
	if n > 0 {
		r.out = append(r.out, ',')
	}
	return false, true
}

func (r *repairer) key() bool {
	if r.quote() != "" {
		return r.text()
	}
	n := nameEnd(r.in[r.at:])
	if n == 0 {
		return false
	}
	r.out = jsonx.AppendString(r.out, r.in[r.at:r.at+n])
	r.at += n
	return true
}

func (r *repairer) colon() bool {
	r.blank()
	if !r.more() || r.in[r.at] != ':' {
		return false
	}
	r.at++
	r.out = append(r.out, ':')
	return true
}

// nameEnd returns the length of an unquoted name.
func nameEnd(b []byte) int {
	n := 0
	for n < len(b) && (isLetter(b[n]) || n > 0 && (isDigit(b[n]) || b[n] == '-')) {
		n++
	}
	return n
}

// literals maps literals of JSON, Python and JavaScript to JSON's.
var literals = map[string]string{
	"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null", "undefined": "null",
}

func (r *repairer) word() bool {
	n := nameEnd(r.in[r.at:])
	w, ok := literals[string(r.in[r.at:r.at+n])]
	r.at += n
	r.out = append(r.out, w...)
	return ok
}

// number copies a number and adds the digits that JSON requires around a decimal point.
func (r *repairer) number() bool {
	start := r.at
	for r.more() && (isDigit(r.in[r.at]) || bytes.IndexByte([]byte("+-.eE"), r.in[r.at]) >= 0) {
		r.at++
	}
	if r.cut && !r.more() { // digits may be missing
		return false
	}
	n := bytes.TrimPrefix(r.in[start:r.at], []byte("+"))
	if negative := bytes.HasPrefix(n, []byte("-")); negative {
		r.out = append(r.out, '-')
		n = n[1:]
	}
	if len(n) > 0 && n[0] == '.' {
		r.out = append(r.out, '0')
	}
	for i, c := range n {
		r.out = append(r.out, c)
		if c == '.' && (i+1 == len(n) || !isDigit(n[i+1])) {
			r.out = append(r.out, '0')
		}
	}
	return len(n) > 0
}

// blank skips white space and comments.
func (r *repairer) blank() {
	for r.more() {
		rest := r.in[r.at:]
		switch {
		case bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0:
			r.at++
		case rest[0] == '#', bytes.HasPrefix(rest, []byte("//")):
			r.skip(rest, "\n")
		case bytes.HasPrefix(rest, []byte("/*")):
			r.skip(rest[2:], "*/")
		default:
			return
		}
	}
}

// skip advances past the end of a comment.
func (r *repairer) skip(rest []byte, end string) {
	n := bytes.Index(rest, []byte(end))
	if n < 0 {
		r.at = len(r.in)
		return
	}
	r.at = len(r.in) - len(rest) + n + len(end)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$' }

// quotes are the opening and closing quotes of strings.
var quotes = []struct{ open, end string }{{`"`, `"`}, {"'", "'"}, {"`", "`"}, {"“", "”"}, {"‘", "’"}}

// quote returns the closing quote of the string that starts here, "" if none does.
func (r *repairer) quote() string {
	for _, q := range quotes {
		if bytes.HasPrefix(r.in[r.at:], []byte(q.open)) {
			return q.end
		}
	}
	return ""
}

// text copies a string.
func (r *repairer) text() bool {
	end := r.quote()
	_, n := utf8.DecodeRune(r.in[r.at:])
	r.at += n
	r.out = append(r.out, '"')
	for r.more() {
		rest := r.in[r.at:]
		switch {
		case bytes.HasPrefix(rest, []byte(end)):
			r.at += len(end)
			r.out = append(r.out, '"')
			return true
		case rest[0] == '\\':
			r.escape(rest)
		default:
			_, n := utf8.DecodeRune(rest)
			r.out = jsonx.AppendEscaped(r.out, rest[:n])
			r.at += n
		}
	}
	r.out = append(r.out, '"')
	return r.ends()
}

// escape copies an escape sequence, without the backslash if JSON has no such escape.
func (r *repairer) escape(rest []byte) {
	switch {
	case len(rest) == 1:
		r.at++
	case rest[1] == 'u' && len(rest) >= 6 && isHex(rest[2:6]):
		r.out = append(r.out, rest[:6]...)
		r.at += 6
	case bytes.IndexByte([]byte(`"\/bfnrt`), rest[1]) >= 0:
		r.out = append(r.out, rest[:2]...)
		r.at += 2
	default:
		_, n := utf8.DecodeRune(rest[1:])
		r.out = jsonx.AppendEscaped(r.out, rest[1:1+n])
		r.at += 1 + n
	}
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}
