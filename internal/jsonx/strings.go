package jsonx

import "bytes"

// Strings yields the strings in v, at any depth, in their order, as in: for s, isName := range v.Strings. isName is set for the name of a member.
// It trusts that the text was validated, as the other methods do.
func (v Value) Strings(yield func(s Value, isName bool) bool) {
	for s, isName := range v.Scalars {
		if s.Kind() == String && !yield(s, isName) {
			return
		}
	}
}

// Scalars yields the strings and the numbers in v, as Strings does.
func (v Value) Scalars(yield func(s Value, isName bool) bool) {
	b, c := v.Raw, v.cursor()
	for i := 0; i < len(b); {
		next := bytes.IndexAny(b[i:], `"-0123456789`)
		if next < 0 {
			return
		}
		i += next
		end := max(c.skipValue(b, i), i+1)
		after := skipSpace(b, end)
		isName := b[i] == '"' && after < len(b) && b[after] == ':'
		if !yield(v.part(i, end), isName) {
			return
		}
		i = end
	}
}

// RemoveElements removes elements of an array inside the document, with their commas; what is left stays as it was. Edits inside a removed element are
// dropped.
func (e *Edits) RemoveElements(array Value, remove func(i int) bool) {
	kept, end := false, array.At+1 // where the element before this one ends
	first := -1                    // where the removed elements begin that have none before them
	for i, v := range array.Each {
		switch start := v.At; {
		case !remove(i):
			if first >= 0 {
				e.Replace(first, start, nil)
				first = -1
			}
			kept = true
		case kept:
			e.Replace(end, start+len(v.Raw), nil)
		case first < 0:
			first = start
		}
		end = v.At + len(v.Raw)
	}
	if first >= 0 {
		e.Replace(first, end, nil)
	}
}
