package structured

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// criterion is one value of a built-in schema that matters for a decision, and which of two values is the more careful one.
type criterion struct {
	path         string // member names from the top, separated by dots; * is every member
	as           valueKind
	tolerance    float64  // absolute difference within which numbers agree
	relTolerance float64  // relative difference within which numbers agree
	order        []string // of asWord: the least careful value first
	stricterIs   direction
}

// valueKind is how a value is compared.
type valueKind uint8

const (
	asNumber   valueKind = iota
	asFlag               // true or false
	asWord               // one of criterion.order
	asPresence           // whether there is a non-empty value
	asLength             // the length of a list
	asIDs                // the set of ids in a list of objects; the last name of the path is the member with the id
)

// direction is which of two values is the more careful one.
type direction int8

const (
	smallest direction = -1 // also: false before true, and the earlier value of order
	neither  direction = 0
	largest  direction = 1
)

// pair is the values of two answers at one path.
type pair struct {
	path string
	a, b jsonx.Value
}

// pairs returns the values that the criterion's path matches.
func (w *criterion) pairs(a, b jsonx.Value) []pair {
	out := []pair{{a: a, b: b}}
	steps := strings.Split(w.path, ".")
	if w.as == asIDs {
		steps = steps[:len(steps)-1]
	}
	for _, step := range steps {
		var next []pair
		for _, p := range out {
			next = append(next, p.step(step)...)
		}
		out = next
	}
	return out
}

// step descends to a member, or for * to every member of either value.
func (p pair) step(name string) []pair {
	if name != "*" {
		return []pair{{below(p.path, name), p.a.Get(name), p.b.Get(name)}}
	}
	var out []pair
	for _, name := range memberNames(p.a, p.b) {
		out = append(out, pair{below(p.path, name), p.a.Get(name), p.b.Get(name)})
	}
	return out
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// memberNames returns the distinct member names of two objects: those of a, then those that only b has.
func memberNames(a, b jsonx.Value) (names []string) {
	for _, v := range []jsonx.Value{a, b} {
		for key := range v.Members {
			if !slices.Contains(names, string(key)) {
				names = append(names, string(key))
			}
			if len(names) == maxFields {
				return names
			}
		}
	}
	return names
}

// agree reports whether two values are equivalent by the criterion.
func (w *criterion) agree(a, b jsonx.Value) bool {
	if w.as == asIDs {
		member := w.path[strings.LastIndexByte(w.path, '.')+1:]
		return slices.Equal(idsOf(a, member), idsOf(b, member))
	}
	x, okA := w.measure(a)
	y, okB := w.measure(b)
	switch {
	case !okA || !okB:
		return sameValue(a, b)
	case w.as == asNumber || w.as == asLength:
		return near(x, y, w.tolerance, w.relTolerance)
	}
	return x == y
}

// measure converts a value to a number; ok is false if it is of another type, or a word that is not in order.
func (w *criterion) measure(v jsonx.Value) (n float64, ok bool) {
	switch w.as {
	case asNumber:
		return v.Float()
	case asFlag:
		is, ok := v.Bool()
		return oneIf(is), ok
	case asWord:
		s, _ := v.Str()
		at := slices.Index(w.order, strings.ToLower(strings.TrimSpace(s)))
		return float64(at), at >= 0
	case asPresence:
		s, isText := v.Str()
		return oneIf(!v.IsNull() && (!isText || strings.TrimSpace(s) != "")), true
	case asLength:
		for range v.Each {
			n++
		}
		return n, true
	case asIDs:
	}
	return 0, false
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// idsOf returns the distinct ids in a list of objects, sorted.
func idsOf(list jsonx.Value, member string) []string {
	var out []string
	for _, e := range list.Each {
		if id, ok := e.Get(member).Str(); ok {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
