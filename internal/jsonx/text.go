package jsonx

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain returns where the next quote, backslash or control character at or after i is (len(b) if none), eight bytes
// at a time. plain is false when a byte on the way may be outside ASCII.
func skipPlain(b []byte, i int) (end int, plain bool) {
	var seen uint64
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		seen |= w
		if hit := special(w); hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3, seen&highs == 0
		}
		i += 8
	}
	for ; i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\'; i++ {
		seen |= uint64(b[i])
	}
	return i, seen&highs == 0
}

// special flags the quotes, backslashes and control characters of eight bytes. The lowest flag is exact: a borrow only spreads upwards from a true
// hit. With its second bit flipped, a quote is the lowest character after the control characters, which are only permuted.
func special(w uint64) uint64 {
	flipped, slash := w^('"'^' ')*ones, w^('\\'*ones)
	return ((flipped-(' '+1)*ones)&^flipped | (slash-ones)&^slash) & highs
}

// skipString returns the offset after the closing quote of the string that opens at i, or len(b) if it does not close. A quote is escaped if it
// follows an odd number of backslashes; the bytes between quotes are not checked.
func skipString(b []byte, i int) int {
	start := i + 1
	for i = start; i < len(b); i++ {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return len(b)
		}
		i += q
		n := i
		for n > start && b[n-1] == '\\' {
			n--
		}
		if (i-n)%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// appendUnescaped appends the text between a string's quotes with its escapes resolved. An unpaired surrogate or an invalid escape becomes U+FFFD.
func appendUnescaped(dst, s []byte) []byte {
	for {
		dst = slices.Grow(dst, len(s)+wordSize)
		written, read := unescapeTo(dst[len(dst):cap(dst)], s)
		dst = dst[:len(dst)+written]
		if read == len(s) {
			return dst
		}
		r, n := unescape(s[read:])
		dst, s = utf8.AppendRune(dst, r), s[read+n:]
	}
}

// unescaped returns appendUnescaped's text as a string, in one allocation.
func unescaped(s []byte) string {
	text := appendUnescaped(nil, s)
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // nothing else refers to its bytes
}

// wordSize is how many bytes unescapeTo copies together.
const wordSize = 8

// unescapeTo resolves escapes as appendUnescaped does, up to an invalid one. It returns how many bytes it wrote and read. dst must have wordSize bytes more
// than s, of which those after the text are overwritten: no valid escape is shorter than its character.
func unescapeTo(dst, s []byte) (written, read int) {
	n, i := 0, 0
	for i < len(s) {
		if i+wordSize <= len(s) {
			w := binary.LittleEndian.Uint64(s[i:])
			binary.LittleEndian.PutUint64(dst[n:], w)
			slash := w ^ '\\'*ones
			hit := (slash - ones) &^ slash & highs
			if hit == 0 {
				i, n = i+wordSize, n+wordSize
				continue
			}
			plain := bits.TrailingZeros64(hit) >> 3
			i, n = i+plain, n+plain
		} else if s[i] != '\\' {
			dst[n] = s[i]
			i, n = i+1, n+1
			continue
		}
		if i+1 < len(s) && shortText[s[i+1]] != 0 {
			dst[n] = shortText[s[i+1]]
			i, n = i+2, n+1
			continue
		}
		r, length := unescape(s[i:])
		if length < utf8.RuneLen(r) {
			break
		}
		n += utf8.EncodeRune(dst[n:], r)
		i += length
	}
	return n, i
}

// shortText has the characters of the escapes with one letter; 0 for other letters.
var shortText = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape reads the escape at the start of s, and returns its length.
func unescape(s []byte) (r rune, n int) {
	switch {
	case len(s) < 2:
		return utf8.RuneError, len(s)
	case s[1] == 'u':
		return unescapeUnicode(s)
	case shortText[s[1]] != 0:
		return rune(shortText[s[1]]), 2
	}
	return utf8.RuneError, 2
}

func unescapeUnicode(s []byte) (r rune, n int) {
	r, ok := hex4(s[2:])
	if !ok {
		return utf8.RuneError, 2
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if low, ok := hex4(s[8:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return utf8.RuneError, 6
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	a, b, c, d := hexValue[s[0]], hexValue[s[1]], hexValue[s[2]], hexValue[s[3]]
	if a|b|c|d == noHex {
		return 0, false
	}
	return rune(a)<<12 | rune(b)<<8 | rune(c)<<4 | rune(d), true
}

const noHex = 0xff

// hexValue has the values of hexadecimal digits, and noHex for other bytes.
var hexValue = func() (t [256]uint8) {
	for c := range t {
		t[c] = noHex
	}
	for v, c := range []byte("0123456789abcdef") {
		t[c] = uint8(v)
		if c >= 'a' {
			t[c-'a'+'A'] = uint8(v)
		}
	}
	return t
}()

// AppendString appends s as a JSON string with quotes. It escapes only what JSON requires; bytes that are not UTF-8
// become \ufffd.
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

// AppendEscaped is AppendString without the quotes, for a string that is written in pieces. A piece must not end
// inside a character.
func AppendEscaped[S ~string | ~[]byte](dst []byte, s S) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainByte[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

// EscapedLen returns the length of AppendEscaped's output.
func EscapedLen(s string) (n int) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case plainByte[c]:
			n++
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size <= 1 {
				n += len(`\ufffd`)
				continue
			}
			n += size
			i += size - 1
		default:
			n += escapedLen(c)
		}
	}
	return n
}

// escapedLen returns the length of the escape of a character that needs one.
func escapedLen(c byte) int {
	switch c {
	case '"', '\\', '\n', '\r', '\t', '\b', '\f':
		return len(`\n`)
	}
	return len(`\u0000`)
}

var plainByte = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, '\\', 'n')
	case c == '\r':
		return append(dst, '\\', 'r')
	case c == '\t':
		return append(dst, '\\', 't')
	case c == '\b':
		return append(dst, '\\', 'b')
	case c == '\f':
		return append(dst, '\\', 'f')
	case c >= utf8.RuneSelf:
		return append(dst, `\ufffd`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
