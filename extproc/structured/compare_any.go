package structured

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// What is compared of answers in a form that nothing is known of.
const (
	mostFields  = 256  // of one comparison; what comes behind is not looked at
	mostDepth   = 32   // deeper values are compared by their bytes
	anyShare    = 0.01 // numbers that differ by no more than this part of the larger one agree
	mostWords   = 8    // a text of more, on either side, is prose
	longestWord = 64   // and so is one with more bytes
)

// compareAny compares all that can be compared of two answers in any form.
func compareAny(a, b jsonx.Value) Comparison {
	w := sideBySide{}
	w.compare("", a, b, 0)
	if len(w.fields) == 0 { // all of it is prose
		w.prose = true
		w.compare("", a, b, 0)
	}
	return Comparison{Fields: w.fields}
}

// compareText compares two answers that are no JSON as a whole.
func compareText(first, second []byte) Comparison {
	same := strings.EqualFold(folded(string(first)), folded(string(second)))
	return Comparison{Fields: []Field{{First: asJSON(first), Second: asJSON(second), Agree: same, Decides: true}}}
}

func asJSON(text []byte) jsonx.Raw { return jsonx.AppendString(nil, string(text)) }

// folded is a text without what says nothing: the spaces around and between its words, and the full stop behind it.
func folded(s string) string { return strings.TrimRight(strings.Join(strings.Fields(s), " "), ".!") }

// sideBySide goes through two values side by side.
type sideBySide struct {
	fields []Field
	prose  bool // texts are compared, too
}

func (w *sideBySide) compare(path string, a, b jsonx.Value, depth int) {
	switch {
	case len(w.fields) >= mostFields:
	case depth == mostDepth:
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

// lists compares lists of scalars by what is in them, in any order, and all others element by element.
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

// sets compares two lists of scalars. Those with prose in them are none: nobody can tell which of the texts belong together.
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

// elements are the elements of a list, as far as they are looked at; plain is whether all are scalars.
func elementsOf(list jsonx.Value) (out []jsonx.Value, plain bool) {
	plain = true
	for i, e := range list.Each {
		if i == mostFields {
			break
		}
		out, plain = append(out, e), plain && !composite(e)
	}
	return out, plain
}

// isProse reports whether a value is a text that no two models word alike.
func isProse(v jsonx.Value) bool {
	s, ok := v.Str()
	return ok && (len(s) > longestWord || len(strings.Fields(s)) > mostWords)
}

// sameValue reports whether two scalars come to the same: nothing and null, numbers that are near, words in any case. Lists and objects
// are compared by their bytes.
func sameValue(a, b jsonx.Value) bool {
	if a.IsNull() || b.IsNull() {
		return a.IsNull() && b.IsNull()
	}
	if bytes.Equal(a.Raw, b.Raw) {
		return true
	}
	if x, ok := a.Float(); ok {
		y, ok := b.Float()
		return ok && near(x, y, 0, anyShare)
	}
	if x, ok := a.Str(); ok {
		y, ok := b.Str()
		return ok && strings.EqualFold(folded(x), folded(y))
	}
	return false
}

// near reports whether two numbers are at most slack apart, or a share of the larger one. What binary fractions add counts for nothing:
// 0.8 is 0.1 from 0.7.
func near(x, y, slack, share float64) bool {
	const rounding = 1e-9
	apart, larger := math.Abs(x-y), max(math.Abs(x), math.Abs(y))
	return apart <= slack*(1+rounding) || apart <= share*larger*(1+rounding)
}
