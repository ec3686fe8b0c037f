package jsonx

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Form says which members the objects of a text have that mean something to its readers, so that no two readers can take it for
// different things: one takes the first of two members and another the last, one tells "Model" from "model" and another does not. A text
// that is scanned by a form holds, in each object that the form reaches, no member twice, in whatever spelling, and no member that
// differs from a known one only by case.
//
// A form is built once, before its first use, and is safe for concurrent use from then on. A nil form is that of values whose names are
// their user's own at any depth: nothing in them is looked at.
type Form struct {
	kind   formKind
	either bool   // names are known in camelCase and in snake_case
	table  []name // by hash, open addressing; its length is a power of two
	known  int    // entries of the table
	ids    uint32
	other  *Form // of the values of members that are not known
}

type formKind uint8

const (
	uniqueNames formKind = iota // each once; there are no known ones
	knownNames                  // each once, regardless of case, and known ones in their own case
	userNames                   // any
)

// name is a known member.
type name struct {
	word uint64 // the first bytes of text
	text string
	id   uint32 // the same for two spellings of one member; 0: an empty place of the table
	of   *Form  // of its value
}

// is reports whether a key, whose first bytes are word, is this name. Most names are told by their first bytes alone.
func (n *name) is(key []byte, word uint64) bool {
	return n.word == word && len(n.text) == len(key) && (len(key) <= 8 || n.text[8:] == string(key[8:]))
}

// wordOf is the first bytes of a key, at most eight.
func wordOf(key []byte) uint64 {
	switch n := len(key); {
	case n >= 8:
		return binary.LittleEndian.Uint64(key)
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(key)) | uint64(binary.LittleEndian.Uint32(key[n-4:]))<<(8*(n-4))
	default:
		var w uint64
		for i, c := range key {
			w |= uint64(c) << (8 * i)
		}
		return w
	}
}

// Unique is the form of texts whose members are unknown: none is there twice, in the same case, at any depth.
var Unique = func() *Form {
	f := &Form{}
	f.other = f
	return f
}()

// topUnique is the form of which only the members at the top are checked.
var topUnique = &Form{}

// NewForm makes a form of known members, whose values are of the same form. Values of members that it does not know are Unique.
func NewForm(names ...string) *Form {
	f := &Form{kind: knownNames, other: Unique}
	return f.Add(f, names...)
}

// NewCamelForm is NewForm for readers that know each member under two names: names are in camelCase, and known in snake_case as well.
func NewCamelForm(names ...string) *Form {
	f := &Form{kind: knownNames, either: true, other: Unique}
	return f.Add(f, names...)
}

// Map is the form of objects whose names are their user's own, with values of a form.
func Map(values *Form) *Form { return &Form{kind: userNames, other: values} }

// Add makes members known whose values are of another form, nil for what is its user's own. What was known of these members before is
// replaced. It returns f.
func (f *Form) Add(of *Form, names ...string) *Form {
	for _, n := range names {
		f.ids++
		f.put(name{text: n, id: f.ids, of: of})
		if snake := snakeCase(n); f.either && snake != n {
			f.put(name{text: snake, id: f.ids, of: of})
		}
	}
	return f
}

// Others says of which form the values of members are that are not known. It returns f.
func (f *Form) Others(of *Form) *Form {
	f.other = of
	return f
}

// Clone is a form that can be changed by itself. The values of its members are of the forms of which they were: f's, where they were
// of f's.
func (f *Form) Clone() *Form {
	c := *f
	c.table = append([]name(nil), f.table...)
	return &c
}

// Knows reports whether a member is known, in just this spelling.
func (f *Form) Knows(key string) bool {
	_, exact := f.find([]byte(key))
	return exact
}

func (f *Form) put(n name) {
	if 2*f.known >= len(f.table) {
		old := f.table
		f.table, f.known = make([]name, max(16, 2*len(old))), 0
		for i := range old {
			if old[i].id != 0 {
				f.put(old[i])
			}
		}
	}
	n.word = wordOf([]byte(n.text))
	mask := len(f.table) - 1
	i := int(nameHash([]byte(n.text), n.word)) & mask
	for ; f.table[i].id != 0; i = (i + 1) & mask {
		if f.table[i].text == n.text {
			f.table[i] = n
			return
		}
	}
	f.table[i] = n
	f.known++
}

// find is the known member of this name, or one that differs from it only by case (exact is false); nil for neither.
func (f *Form) find(key []byte) (found *name, exact bool) {
	if len(f.table) == 0 {
		return nil, false
	}
	word, mask := wordOf(key), len(f.table)-1
	for i := int(nameHash(key, word)) & mask; f.table[i].id != 0; i = (i + 1) & mask {
		switch n := &f.table[i]; {
		case n.is(key, word):
			return n, true
		case found == nil && equalFold(n.text, key):
			found = n
		}
	}
	return found, false
}

// findOdd is the known member that a lenient reader may take a name for which is not known: one with letters outside of ASCII that are
// cases of letters inside, one that ends in a NUL for readers in C, and, where there are two spellings, a mixture of them.
func (f *Form) findOdd(key []byte) *name {
	odd := false
	for _, c := range key {
		odd = odd || c >= 0x80 || c == 0 || c == '_' && f.either
	}
	if !odd {
		return nil
	}
	plain := key
	if nul := bytes.IndexByte(plain, 0); nul >= 0 {
		plain = plain[:nul]
	}
	plain = []byte(strings.Map(func(r rune) rune {
		switch r {
		case '\u0131', '\u0130': // i without its dot, and I with one
			return 'i'
		case '\u017f': // the long s
			return 's'
		case '\u212a': // the sign of kelvin
			return 'k'
		case '_':
			if f.either {
				return -1
			}
		}
		return r
	}, string(plain)))
	found, _ := f.find(plain)
	return found
}

// nameHash is the same for names that differ only in the case of ASCII letters. word is the key's first bytes.
func nameHash(key []byte, word uint64) uint32 {
	const lower = 0x2020202020202020
	last := uint64(0)
	if n := len(key); n > 8 {
		last = binary.LittleEndian.Uint64(key[n-8:])
	}
	h := ((word|lower)*0x9e3779b97f4a7c15 ^ (last | lower)) * 0xd6e8feb86659fd93
	return uint32(h>>32) ^ uint32(len(key)) //nolint:gosec // of a hash, any bits will do
}

// equalFold reports whether two names differ at most in the case of ASCII letters.
func equalFold[S, T ~string | ~[]byte](a S, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		c, d := a[i], b[i]
		if c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

func lowerASCII(key []byte) []byte {
	b := bytes.Clone(key)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

// snakeCase writes a name in camelCase in snake_case.
func snakeCase(camel string) string {
	var b []byte
	for i := range len(camel) {
		c := camel[i]
		if c >= 'A' && c <= 'Z' {
			b = append(b, '_')
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}
