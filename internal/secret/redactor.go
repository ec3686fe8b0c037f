package secret

import (
	"encoding/base64"
	"io"
	"slices"
	"strings"
)

// Redactor removes known credentials from texts: verbatim, in base64, and with characters escaped as in JSON (up to four levels), URLs or HTML. A
// nil Redactor removes nothing. It is immutable: safe for concurrent use.
type Redactor struct {
	secrets []string // verbatim
	texts   []string // in every encoding that is searched
	byFirst [256][]string
}

// shortest is the length in bytes below which a credential is only removed as a whole word, such as "none" and "EMPTY", the placeholders for servers
// that require no key: inside other words it is no credential.
const shortest = 8

// minPart is the shortest prefix of a credential, in bytes, that is removed at the end of a text: the text may have been truncated there.
const minPart = 6

// NewRedactor returns a redactor of credentials, and of the secrets within them (partsOf). Unset and repeated ones are ignored.
func NewRedactor(credentials ...Text) *Redactor {
	r := &Redactor{}
	add := func(s string) {
		if !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	for _, c := range credentials {
		if !c.IsSet() {
			continue
		}
		add(c.Reveal())
		for _, part := range partsOf(c.Reveal()) {
			add(part)
		}
	}
	for _, s := range r.secrets {
		r.texts = append(append(r.texts, s), inBase64(s)...)
	}
	slices.SortFunc(r.texts, func(a, b string) int { return len(b) - len(a) }) // so that the longer of two with a common prefix is found
	for _, s := range r.texts {
		r.byFirst[s[0]] = append(r.byFirst[s[0]], s)
	}
	return r
}

// inBase64 returns the base64 encodings of a credential at any offset of the encoded text, such as behind "Bearer ", in both alphabets. The first and
// last characters, which also encode neighbouring bytes, are left out.
func inBase64(s string) (all []string) {
	if len(s) < shortest {
		return nil
	}
	for before := range 3 { // bytes before it; base64 encodes groups of three
		b := append(make([]byte, before, before+len(s)), s...)
		text := base64.RawStdEncoding.EncodeToString(b)
		if before > 0 {
			text = text[before+1:]
		}
		if len(b)%3 != 0 {
			text = text[:len(text)-1]
		}
		all = append(all, text)
		if other := strings.NewReplacer("+", "-", "/", "_").Replace(text); other != text {
			all = append(all, other)
		}
	}
	return all
}

// With returns a redactor that also removes further credentials.
func (r *Redactor) With(more ...Text) *Redactor {
	if !slices.ContainsFunc(more, Text.IsSet) {
		return r
	}
	if r != nil {
		for _, s := range r.secrets {
			more = append(more, New(s))
		}
	}
	return NewRedactor(more...)
}

// String returns s without credentials: each is replaced by "***".
func (r *Redactor) String(s string) string {
	if r == nil || len(r.texts) == 0 {
		return s
	}
	var out []byte
	kept := 0 // bytes of s that are in out
	for i := 0; i < len(s); {
		n := r.match(s, i)
		if n == 0 {
			i++
			continue
		}
		out = append(append(out, s[kept:i]...), mask...)
		i += n
		kept = i
	}
	if kept == 0 {
		return s
	}
	return string(append(out, s[kept:]...))
}

// Bytes returns b without credentials; b itself if it has none.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil || len(r.texts) == 0 {
		return b
	}
	s := string(b)
	if clean := r.String(s); clean != s {
		return []byte(clean)
	}
	return b
}

// Strings removes credentials from texts, in place.
func (r *Redactor) Strings(texts ...*string) {
	for _, s := range texts {
		*s = r.String(*s)
	}
}

// Writer writes to w without credentials. A credential that is split over two calls is not found, so each call has to write whole lines. redactor
// is called for each write and may be nil.
func Writer(w io.Writer, redactor func() *Redactor) io.Writer { return writer{w, redactor} }

type writer struct {
	w        io.Writer
	redactor func() *Redactor
}

// Write implements io.Writer.
func (w writer) Write(b []byte) (int, error) {
	if _, err := w.w.Write(w.redactor().Bytes(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// match returns how many bytes of s at i are a credential; 0 for none.
func (r *Redactor) match(s string, i int) int {
	for _, text := range r.byFirst[s[i]] {
		if len(text) > 1 && i+1 < len(s) && s[i+1] != text[1] && !escapes(s[i+1]) {
			continue // the usual case
		}
		if n := matchText(s, i, text); n > 0 {
			return n
		}
	}
	if !escapes(s[i]) {
		return 0
	}
	c, n := unescape(s[i:])
	if n == 0 {
		return 0
	}
	for _, text := range r.byFirst[c] {
		if n := matchText(s, i, text); n > 0 {
			return n
		}
	}
	return 0
}

// escapes reports whether a byte can start an escaped character.
func escapes(c byte) bool { return c == '\\' || c == '%' || c == '&' }

// matchText returns how many bytes of s at i encode text; 0 if they do not.
func matchText(s string, i int, text string) int {
	at := i
	for j := range len(text) {
		if at == len(s) {
			if j >= minPart && len(text) >= shortest {
				return at - i
			}
			return 0
		}
		if s[at] == text[j] {
			at++
			continue
		}
		c, n := unescape(s[at:])
		if n == 0 || c != text[j] {
			return 0
		}
		at += n
	}
	if len(text) < shortest && (i > 0 && isWord(s[i-1]) || at < len(s) && isWord(s[at])) {
		return 0
	}
	return at - i
}

func isWord(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// maxBackslashes limits the levels of escaping: JSON in JSON in JSON in JSON. It also limits the work for a text of backslashes.
const maxBackslashes = 15

// unescape decodes the escaped character at the start of s, and returns its length in bytes; 0 for none. Backslashes may be repeated, as in JSON that
// is quoted in JSON.
func unescape(s string) (c byte, n int) {
	if s == "" {
		return 0, 0
	}
	switch s[0] {
	case '%':
		return coded(s, 1, 2, 16)
	case '&':
		return entity(s)
	case '\\':
	default:
		return 0, 0
	}
	for n < len(s) && n < maxBackslashes && s[n] == '\\' {
		n++
	}
	switch {
	case n == len(s) || s[n] == '\\':
		return 0, 0
	case s[n] == 'u':
		return coded(s, n+1, 4, 16)
	case s[n] == 'x':
		return coded(s, n+1, 2, 16)
	}
	return s[n], n + 1 // \/ and \"
}

// entity reads a numeric character reference of HTML: &#45; or &#x2d;.
func entity(s string) (c byte, n int) {
	body, _, ok := strings.Cut(s[:min(len(s), len("&#x0000;"))], ";")
	digits, isNumber := strings.CutPrefix(body, "&#")
	if !ok || !isNumber || digits == "" {
		return 0, 0
	}
	base, from := 10, 2
	if digits[0] == 'x' || digits[0] == 'X' {
		base, from = 16, 3
	}
	if c, n = coded(s, from, len(body)-from, base); n == 0 {
		return 0, 0
	}
	return c, len(body) + 1
}

// coded decodes an ASCII character from its number in digits of s at from, and returns their end; 0 for any other.
func coded(s string, from, digits, base int) (c byte, n int) {
	if digits == 0 || len(s) < from+digits {
		return 0, 0
	}
	number := 0
	for _, d := range []byte(s[from : from+digits]) {
		v := digit(d)
		if v >= base {
			return 0, 0
		}
		if number = number*base + v; number > 0x7f {
			return 0, 0
		}
	}
	return byte(number), from + digits
}

// digit returns the value of a digit; 16 for any other byte.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 16
}
