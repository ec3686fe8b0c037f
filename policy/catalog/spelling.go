package catalog

import (
	"bytes"
	"strings"
)

// Index finds values by model id in any spelling: as added; with other case or with dots and dashes between digits exchanged; as a dated snapshot or
// "-latest" of an id that was added. The zero value is empty. Concurrent lookups are safe once all values are added.
type Index[T any] struct {
	exact map[string]T
	loose map[string]T // by folded id
}

// Add adds a value. An id that is already there keeps its value.
func (x *Index[T]) Add(id string, v T) {
	if x.exact == nil {
		x.exact, x.loose = map[string]T{}, map[string]T{}
	}
	if _, ok := x.exact[id]; !ok {
		x.exact[id] = v
	}
	var buf folded
	if key, ok := buf.fold(id); ok {
		if _, ok := x.loose[string(key)]; !ok {
			x.loose[string(key)] = v
		}
	}
}

// replace sets the value of an id that was added, in every spelling.
func (x *Index[T]) replace(id string, v T) {
	x.exact[id] = v
	var buf folded
	if key, ok := buf.fold(id); ok {
		x.loose[string(key)] = v
	}
}

// Find finds a value. suffix is the part of the id after the added one: "-20250929", "-latest", or "".
func (x *Index[T]) Find(id string) (v T, suffix string, ok bool) {
	if v, ok = x.find(id); ok {
		return v, "", true
	}
	return x.FindBase(id)
}

// FindBase finds the value of the model that id is a snapshot of, even where the snapshot itself was added.
func (x *Index[T]) FindBase(id string) (v T, suffix string, ok bool) {
	if n := snapshot(id); n > 0 {
		if v, ok = x.find(id[:n]); ok {
			return v, id[n:], true
		}
	}
	return v, "", false
}

func (x *Index[T]) find(id string) (v T, ok bool) {
	if v, ok = x.exact[id]; ok {
		return v, true
	}
	var buf folded
	if key, fits := buf.fold(id); fits {
		v, ok = x.loose[string(key)]
	}
	return v, ok
}

// Same reports whether two ids are spellings of one: they differ only in case, or in dots and dashes between digits.
func Same(a, b string) bool {
	var one, two folded
	x, okX := one.fold(a)
	y, okY := two.fold(b)
	return okX && okY && bytes.Equal(x, y)
}

// folded is the buffer of a folded id; longer ids have one spelling only.
type folded [96]byte

// fold writes id in lower case, with a dash for each dot between two digits.
func (b *folded) fold(id string) (key []byte, ok bool) {
	if len(id) > len(b) {
		return nil, false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '.' && i > 0 && i+1 < len(id) && digit(id[i-1]) && digit(id[i+1]):
			c = '-'
		}
		b[i] = c
	}
	return b[:len(id)], true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// suffixes are the suffixes of snapshots' ids; # stands for a digit.
var suffixes = []string{"-2#######", "-2###-##-##", "-latest", "-####"}

// snapshot returns the index of a snapshot id's suffix, 0 if it has none.
func snapshot(id string) int {
	for _, shape := range suffixes {
		if n := len(id) - len(shape); n > 0 && shaped(id[n:], shape) {
			return n
		}
	}
	return 0
}

func shaped(s, shape string) bool {
	for i := range len(shape) {
		if s[i] != shape[i] && (shape[i] != '#' || !digit(s[i])) {
			return false
		}
	}
	return true
}

// plain returns an id without organisation and variant, in lower case: "deepseek-r1" for "deepseek/DeepSeek-R1:free".
func plain(id string) string {
	name, _, _ := strings.Cut(lastPart(id), ":")
	return name
}

func lastPart(id string) string { return strings.ToLower(id[strings.LastIndexByte(id, '/')+1:]) }
