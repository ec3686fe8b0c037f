package structured

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Limits and tolerances of comparing answers without criteria.
const (
	maxFields        = 256  // of one comparison; further ones are ignored
	maxCompareDepth  = 32   // deeper values are compared byte by byte
	defaultTolerance = 0.01 // relative: numbers that differ by at most this share of the larger one agree
	maxWords         = 8    // a longer text is free text, which is not compared
	maxWordBytes     = 64   // bytes; also free text beyond
)

// compareAny compares all values of two answers except free text.
func compareAny(a, b jsonx.Value) Comparison {
	w := sideBySide{}
	w.compare("", a, b, 0)
	if len(w.fields) == 0 { // nothing but free text
		w.prose = true
		w.compare("", a, b, 0)
	}
	return Comparison{Fields: w.fields}
}

// compareText compares two answers that are not JSON.
func compareText(first, second []byte) Comparison {
	same := strings.EqualFold(normalized(string(first)), normalized(string(second)))
	return Comparison{Fields: []Field{{First: asJSON(first), Second: asJSON(second), Agree: same, Decides: true}}}
}

func asJSON(text []byte) jsonx.Raw { return jsonx.AppendString(nil, string(text)) }

// normalized returns a text with single spaces between words and without a full stop at its end.
func normalized(s string) string {
	return strings.TrimRight(strings.Join(strings.Fields(s), " "), ".!")
}

// sideBySide walks two values in parallel.
type sideBySide struct {
	fields []Field
	prose  bool // also compare free text
}

func (w *sideBySide) compare(path string, a, b jsonx.Value, depth int) {
	switch {
	case len(w.fields) >= maxFields:
	case depth == maxCompareDepth:
		w.add(path, a, b, bytes.Equal(a.Raw, b.Raw))
	case a.Kind() == jsonx.Object && b.Kind() == jsonx.Object:
		for _, name := range memberNames(a, b) {
			w.compare(below(path, name), a.Get(name), b.Get(name), depth+1)
		}
	case a.Kind() == jsonx.Array && b.Kind() == jsonx.Array:
		w.lists(path, a, b, depth)
	case !w.prose && (isProse(a) || isProse(b)) && !sameValue(a, b):
	default:
		w.add(path, a, b, sameValue(a, b))
	}
}

func (w *sideBySide) add(path string, a, b jsonx.Value, agree bool) {
	w.fields = append(w.fields, Field{Path: path, First: a.Raw, Second: b.Raw, Agree: agree, Decides: true})
}

// lists compares lists of scalars as sets, and all others element by element.
func (w *sideBySide) lists(path string, a, b jsonx.Value, depth int) {
	x, plainA := elementsOf(a)
	y, plainB := elementsOf(b)
	switch {
	case plainA && plainB:
		w.sets(path+"[]", a, b, x, y)
	case len(x) != len(y):
		w.add(path+"[]", a, b, false)
	default:
		for i := range x {
			w.compare(path+"["+strconv.Itoa(i)+"]", x[i], y[i], depth+1)
		}
	}
}

// sets compares two lists of scalars in any order. Lists with free text are skipped unless they are equal.
func (w *sideBySide) sets(path string, a, b jsonx.Value, x, y []jsonx.Value) {
	same := len(x) == len(y)
	for i := range x {
		same = same && slices.ContainsFunc(y, func(v jsonx.Value) bool { return sameValue(x[i], v) })
	}
	for i := range y {
		same = same && slices.ContainsFunc(x, func(v jsonx.Value) bool { return sameValue(v, y[i]) })
	}
	if same || w.prose || !slices.ContainsFunc(x, isProse) && !slices.ContainsFunc(y, isProse) {
		w.add(path, a, b, same)
	}
}

// elementsOf returns the first maxFields elements of a list; plain is true if all are scalars.
func elementsOf(list jsonx.Value) (out []jsonx.Value, plain bool) {
	plain = true
	for i, e := range list.Each {
		if i == maxFields {
			break
		}
		out, plain = append(out, e), plain && !composite(e)
	}
	return out, plain
}

// isProse reports whether a value is free text, which two models never write alike.
func isProse(v jsonx.Value) bool {
	s, ok := v.Str()
	return ok && (len(s) > maxWordBytes || len(strings.Fields(s)) > maxWords)
}

// sameValue reports whether two scalars are equivalent: absent and null, numbers within the tolerance, text in any case. Lists and objects
// are compared byte by byte.
func sameValue(a, b jsonx.Value) bool {
	if a.IsNull() || b.IsNull() {
		return a.IsNull() && b.IsNull()
	}
	if bytes.Equal(a.Raw, b.Raw) {
		return true
	}
	if x, ok := a.Float(); ok {
		y, ok := b.Float()
		return ok && near(x, y, 0, defaultTolerance)
	}
	if x, ok := a.Str(); ok {
		y, ok := b.Str()
		return ok && strings.EqualFold(normalized(x), normalized(y))
	}
	return false
}

// near reports whether two numbers differ by at most slack, or by at most a share of the larger one. Rounding errors of binary fractions
// are ignored: 0.8 is 0.1 from 0.7.
func near(x, y, slack, share float64) bool {
	const rounding = 1e-9
	apart, larger := math.Abs(x-y), max(math.Abs(x), math.Abs(y))
	return apart <= slack*(1+rounding) || apart <= share*larger*(1+rounding)
}
