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

// writer serialises what a key is hashed from. Every value has a type mark or a length before it, so that different values never
// produce the same bytes.
type writer struct {
	b          []byte
	sortBudget int // bytes of JSON whose objects may still be sorted; bounds the work on deeply nested bodies
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

// Type marks of JSON values.
const (
	markAbsent  = '-'
	markNull    = 'n'
	markTrue    = 't'
	markFalse   = 'f'
	markNumber  = '#'
	markString  = '"'
	markEscaped = '\\' // a string with an escape that is no valid text (half a surrogate pair), written as its raw bytes
	markArray   = '['
	markObject  = '{'
	markRaw     = '!' // unparsed bytes
	markMore    = ','
	markEnd     = '.'
)

// Limits of sorting: values below maxCanonicalDepth, and values reached after maxSortPasses times the size of the body was read, are
// hashed as raw bytes. Each level of nesting reads everything below it again, and a body may nest 512 levels; typical ones take six passes.
const (
	maxCanonicalDepth = 32
	maxSortPasses     = 12
)

// maySort reports whether an array or object is canonicalized, and takes its size from the budget.
func (w *writer) maySort(v jsonx.Value, depth int) bool {
	w.sortBudget -= len(v.Raw)
	return depth <= maxCanonicalDepth && w.sortBudget >= 0
}

// member is one member of an object that is being sorted.
type member struct {
	key   string
	value jsonx.Value
}

// value writes a canonical form of a JSON value, similar to RFC 8785: members sorted by key, numbers by value, strings unescaped. Unlike
// RFC 8785, numbers keep all their digits.
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
	if !w.maySort(v, depth) {
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
	if !w.maySort(v, depth) {
		w.raw(v.Raw)
		return
	}
	var members []member
	for key, m := range v.Members {
		members = append(members, member{string(key), m})
	}
	w.members(members, depth)
}

// members writes an object's members. Duplicates keep their order, because parsers differ in which of them they use.
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

// lossy reports whether unescaping a string may lose information: U+FFFD may stand for an invalid escape.
func lossy(v jsonx.Value) bool {
	if bytes.IndexByte(v.Raw, '\\') < 0 {
		return false
	}
	text, _ := v.Text(nil)
	return bytes.ContainsRune(text, utf8.RuneError)
}

// json writes a text as canonical JSON, or as raw bytes if it is not JSON.
func (w *writer) json(text []byte) {
	v, err := jsonx.Parse(text)
	if err != nil {
		w.raw(text)
		return
	}
	w.value(v, 1)
}

// number writes a number by its exact value: 1, 1.0, 10e-1 and 0.1E1 are equal, and so are 0 and -0. "" means absent.
func (w *writer) number(s string) {
	if s == "" {
		w.byte(markAbsent)
		return
	}
	mantissa, exponent := s, int64(0)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil { // the exponent does not fit 32 bits
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
