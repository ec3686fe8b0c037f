package structured

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// weight is one thing that matters in a form of ours, and which of two values of it is the more careful one.
type weight struct {
	path  string // members from the top; * is each of them
	look  look
	slack float64  // numbers that are no further apart agree
	share float64  // and so do those that differ by no more than this part of the larger one
	order []string // of a word: the least careful first
	sign  sign
}

// look is how a value is looked at.
type look uint8

const (
	asNumber   look = iota
	asFlag          // true or false
	asWord          // one of a few
	asPresence      // whether anything is said
	asLength        // how many there are in a list
	asIDs           // which ones there are in a list of objects, by the member that the path ends in
)

// sign says which of two values is the more careful one.
type sign int8

const (
	smallest sign = -1 // also: false before true, the earlier word
	neutral  sign = 0
	largest  sign = 1
)

// pair is what two answers have at one place.
type pair struct {
	path string
	a, b jsonx.Value
}

// pairs are the places that the weight's path matches.
func (w *weight) pairs(a, b jsonx.Value) []pair {
	out := []pair{{a: a, b: b}}
	steps := strings.Split(w.path, ".")
	if w.look == asIDs {
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

// step goes down to a member, or to each of those that one of both has.
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

// memberNames are the names of the members of two objects, each once, the first one's before what only the second one has.
func memberNames(a, b jsonx.Value) (names []string) {
	for _, v := range []jsonx.Value{a, b} {
		for key := range v.Members {
			if !slices.Contains(names, string(key)) {
				names = append(names, string(key))
			}
			if len(names) == mostFields {
				return names
			}
		}
	}
	return names
}

// agree reports whether two values come to the same.
func (w *weight) agree(a, b jsonx.Value) bool {
	if w.look == asIDs {
		member := w.path[strings.LastIndexByte(w.path, '.')+1:]
		return slices.Equal(idsOf(a, member), idsOf(b, member))
	}
	x, okA := w.measure(a)
	y, okB := w.measure(b)
	switch {
	case !okA || !okB:
		return sameValue(a, b)
	case w.look == asNumber || w.look == asLength:
		return near(x, y, w.slack, w.share)
	}
	return x == y
}

// measure is a value as a number; ok is false for what is of another kind, and for a word that has no order.
func (w *weight) measure(v jsonx.Value) (n float64, ok bool) {
	switch w.look {
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

// idsOf are the ids in a list of objects, sorted, each once.
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
