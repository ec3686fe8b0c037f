package jsonx

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// Value is a JSON value inside a larger text. The zero Value does not exist, and reading from it returns absent values.
type Value struct {
	Raw Raw
	At  int // offset of Raw in the text given to Parse or Scan

	place *place // set for a Value from a Parser or a Scan, whose Raw must not be replaced; else nil
}

// Exists reports whether there is a value (null is one).
func (v Value) Exists() bool { return len(v.Raw) > 0 }

// Kind returns the value's type by its first byte.
func (v Value) Kind() Kind {
	if len(v.Raw) == 0 {
		return Invalid
	}
	return kindOf(v.Raw[0])
}

// IsNull reports whether the value is null or absent.
func (v Value) IsNull() bool { return len(v.Raw) == 0 || v.Raw[0] == 'n' }

// Str returns a copy of a string value; ok is false for every other kind.
func (v Value) Str() (s string, ok bool) {
	inner, ok := v.inner()
	if !ok || bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), ok
	}
	return unescaped(inner), true
}

// inner returns the text between a string's quotes; ok is false for every other kind.
func (v Value) inner() (inner []byte, ok bool) {
	if len(v.Raw) < 2 || v.Raw[0] != '"' || v.Raw[len(v.Raw)-1] != '"' {
		return nil, false
	}
	return v.Raw[1 : len(v.Raw)-1], true
}

// Text returns a string value's text; ok is false for every other kind. Without escapes it aliases the value's own
// bytes; otherwise the text is appended to *arena, which may be nil, and aliases that.
func (v Value) Text(arena *[]byte) (text []byte, ok bool) {
	inner, ok := v.inner()
	if !ok || bytes.IndexByte(inner, '\\') < 0 {
		return inner, ok
	}
	if arena == nil {
		return appendUnescaped(nil, inner), true
	}
	n := len(*arena)
	*arena = appendUnescaped(*arena, inner)
	return (*arena)[n:len(*arena):len(*arena)], true
}

// TextAt returns the offset in the document after the first n bytes of a string value's text. A position inside an escape moves before it.
func (v Value) TextAt(n int) int {
	i, end := 1, len(v.Raw)-1
	for i < end && n > 0 {
		size, raw := 1, 1
		if v.Raw[i] == '\\' {
			r, k := unescape(v.Raw[i:end])
			size, raw = utf8.RuneLen(r), k
		}
		if size > n {
			break
		}
		i, n = i+raw, n-size
	}
	return v.At + i
}

// Equal reports whether the value is the string s.
func (v Value) Equal(s string) bool {
	if len(v.Raw) == len(s)+2 && v.Raw[0] == '"' && string(v.Raw[1:len(v.Raw)-1]) == s {
		return bytes.IndexByte(v.Raw, '\\') < 0
	}
	t, ok := v.Text(nil)
	return ok && string(t) == s
}

// Int returns a number that is written as an integer and fits; ok is false otherwise.
func (v Value) Int() (n int64, ok bool) {
	b := v.Raw
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || (b[0] == '0' && len(b) > 1) {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		if c-'0' > 9 {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= -math.MinInt64:
		return -int64(u), true // also for -2^63, whose negation is itself
	case !negative && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}

// Float returns a number, rounded to the nearest float64; ok is false for other kinds and for numbers out of range.
func (v Value) Float() (f float64, ok bool) {
	if len(v.Raw) == 0 || numberEnd(v.Raw, 0) != len(v.Raw) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64)
	return f, err == nil
}

// Bool returns a boolean; ok is false for every other kind.
func (v Value) Bool() (b, ok bool) {
	switch string(v.Raw) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// Get returns the first member of an object with this key; it does not exist for other kinds or when it is absent.
func (v Value) Get(key string) Value {
	for k, m := range v.Members {
		if string(k) == key {
			return m
		}
	}
	return Value{}
}

// Each yields the elements of an array in order, as in: for i, e := range v.Each. Other kinds have none.
func (v Value) Each(yield func(i int, e Value) bool) {
	if v.Kind() != Array {
		return
	}
	if v.place.isOwn() {
		v.place.elements(v.Raw, yield)
		return
	}
	b, c := v.Raw, v.cursor()
	for n, i := 0, skipSpace(b, 1); i < len(b) && b[i] != ']'; n++ {
		end := c.skipValue(b, i)
		if end == i || !yield(n, v.part(i, end)) {
			return
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			return
		}
		i = skipSpace(b, i+1)
	}
}

// Members yields the members of an object in order, as in: for k, m := range v.Members. Other kinds have none. A key is
// unescaped; it may alias the text, and must not be changed.
func (v Value) Members(yield func(key []byte, m Value) bool) {
	if v.Kind() != Object {
		return
	}
	if v.place.isOwn() {
		v.place.members(v.Raw, yield)
		return
	}
	b, c := v.Raw, v.cursor()
	for i := skipSpace(b, 1); i < len(b) && b[i] == '"'; {
		key, keyEnd, ok := readKey(b, i)
		if i = skipSpace(b, keyEnd); !ok || i >= len(b) || b[i] != ':' {
			return
		}
		i = skipSpace(b, i+1)
		end := c.skipValue(b, i)
		if end == i || !yield(key, v.part(i, end)) {
			return
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			return
		}
		i = skipSpace(b, i+1)
	}
}

// readKey reads the key whose quote opens at i. Very few keys have escapes; they are detected while reading.
func readKey(b []byte, i int) (key []byte, end int, ok bool) {
	if stop, _ := skipPlain(b, i+1); stop < len(b) && b[stop] == '"' {
		return b[i+1 : stop], stop + 1, true
	}
	end = skipString(b, i)
	key, ok = Value{Raw: b[i:end]}.Text(nil)
	return key, end, ok
}

// AppendStrings appends to dst the strings in a value, at any depth, as JSON and each followed by a comma; nothing for other values. Members for which skip, if it
// is not nil, returns true are left out.
func (v Value) AppendStrings(dst []byte, skip func(key []byte, m Value) bool) []byte {
	switch v.Kind() { //nolint:exhaustive // the others have none
	case String:
		return append(append(dst, v.Raw...), ',')
	case Array:
		for _, e := range v.Each {
			dst = e.AppendStrings(dst, skip)
		}
	case Object:
		for key, m := range v.Members {
			if skip == nil || !skip(key, m) {
				dst = m.AppendStrings(dst, skip)
			}
		}
	}
	return dst
}
