package attestation

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// member is a member of an object that is signed or hashed: a string, an integer of less than 2^53, or a bool.
type member struct {
	key   string
	value any
}

// canonical writes an object in the JSON Canonicalization Scheme (RFC 8785). The members must be sorted by their keys, which are ASCII.
func canonical(members []member) []byte {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, m.key), ':')
		switch v := m.value.(type) {
		case string:
			b = appendString(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case bool:
			b = strconv.AppendBool(b, v)
		}
	}
	return append(b, '}')
}

// short are the control characters that have an escape of one letter.
var short = map[rune]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '\\': `\\`}

// appendString appends a string as RFC 8785 requires: with escapes only where JSON needs them. Invalid UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch escape, ok := short[r]; {
		case ok:
			b = append(b, escape...)
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
