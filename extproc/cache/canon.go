package cache

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/internal/jsonx"
)

// writer gathers what a key is made of. Everything has a mark or a length before it, so that no two things run into the same bytes.
type writer struct {
	b    []byte
	left int // how many bytes of JSON may yet be put in order
}

func (w *writer) byte(c byte)   { w.b = append(w.b, c) }
func (w *writer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *writer) bool(on bool) {
	if on {
		w.byte(1)
		return
	}
	w.byte(0)
}

func (w *writer) text(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) bytes(b []byte) {
	w.uint(uint64(len(b)))
	w.b = append(w.b, b...)
}

func (w *writer) strings(list []string) {
	w.uint(uint64(len(list)))
	for _, s := range list {
		w.text(s)
	}
}

// The marks of JSON values.
const (
	markAbsent  = '-'
	markNull    = 'n'
	markTrue    = 't'
	markFalse   = 'f'
	markNumber  = '#'
	markString  = '"'
	markEscaped = '\\' // a string whose escapes have no text of their own: half a surrogate pair
	markArray   = '['
	markObject  = '{'
	markRaw     = '!' // bytes as they are
	markMore    = ','
	markEnd     = '.'
)

// What lies deeper than maxCanonicalDepth counts as it is written, and so does what comes after a body was read mostOrdered times:
// every level reads what is below it once more, and a body may nest 512 levels. What people write is read some six times.
const (
	maxCanonicalDepth = 32
	mostOrdered       = 12
)

// ordered reports whether a value that holds others is put in order.
func (w *writer) ordered(v jsonx.Value, depth int) bool {
	w.left -= len(v.Raw)
	return depth <= maxCanonicalDepth && w.left >= 0
}

// member is a member of an object on its way into a key.
type member struct {
	key   string
	value jsonx.Value
}

// value writes a JSON value in the spirit of RFC 8785: members by key, numbers by value, strings by what they say. Numbers keep
// all their digits, unlike there.
func (w *writer) value(v jsonx.Value, depth int) {
	switch v.Kind() {
	case jsonx.Invalid:
		w.byte(markAbsent)
	case jsonx.Null:
		w.byte(markNull)
	case jsonx.Bool:
		if on, _ := v.Bool(); on {
			w.byte(markTrue)
			return
		}
		w.byte(markFalse)
	case jsonx.Number:
		w.number(string(v.Raw))
	case jsonx.String:
		w.string(v)
	case jsonx.Array:
		w.array(v, depth)
	case jsonx.Object:
		w.object(v, depth)
	}
}

func (w *writer) array(v jsonx.Value, depth int) {
	if !w.ordered(v, depth) {
		w.raw(v.Raw)
		return
	}
	w.byte(markArray)
	for _, e := range v.Each {
		w.byte(markMore)
		w.value(e, depth+1)
	}
	w.byte(markEnd)
}

func (w *writer) object(v jsonx.Value, depth int) {
	if !w.ordered(v, depth) {
		w.raw(v.Raw)
		return
	}
	var members []member
	for key, m := range v.Members {
		members = append(members, member{string(key), m})
	}
	w.members(members, depth)
}

// members writes an object's. Those of the same key keep their order: which of them counts is the reader's affair.
func (w *writer) members(members []member, depth int) {
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	w.byte(markObject)
	for _, m := range members {
		w.byte(markMore)
		w.text(m.key)
		w.value(m.value, depth+1)
	}
	w.byte(markEnd)
}

func (w *writer) raw(b []byte) {
	w.byte(markRaw)
	w.bytes(b)
}

func (w *writer) string(v jsonx.Value) {
	text, ok := v.Text(nil)
	if !ok || lossy(v) {
		w.byte(markEscaped)
		w.bytes(v.Raw)
		return
	}
	w.byte(markString)
	w.bytes(text)
}

// lossy reports whether a string's text may say less than its escapes do.
func lossy(v jsonx.Value) bool {
	if bytes.IndexByte(v.Raw, '\\') < 0 {
		return false
	}
	text, _ := v.Text(nil)
	return bytes.ContainsRune(text, utf8.RuneError)
}

// json writes a JSON text that stands inside a string or by itself; text that is none counts as it is.
func (w *writer) json(text []byte) {
	v, err := jsonx.Parse(text)
	if err != nil {
		w.raw(text)
		return
	}
	w.value(v, 1)
}

// number writes a number by its value, exactly: 1, 1.0, 10e-1 and 0.1E1 are the same, and so are 0 and -0. "" is none.
func (w *writer) number(s string) {
	if s == "" {
		w.byte(markAbsent)
		return
	}
	mantissa, exponent := s, int64(0)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil { // beyond every number there is
			w.raw([]byte(s))
			return
		}
		mantissa, exponent = s[:i], n
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= int64(len(fraction))
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(significant))
	if significant == "" {
		negative, exponent = false, 0
	}
	w.byte(markNumber)
	w.bool(negative)
	w.text(significant)
	w.b = binary.AppendVarint(w.b, exponent)
}
