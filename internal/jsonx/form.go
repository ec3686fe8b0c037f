package jsonx

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Form defines which members of the objects in a text have a meaning to its readers, so that different readers cannot interpret it differently: some
// readers take the first of duplicate members and others the last, and some distinguish "Model" from "model" and others do not. A text scanned by a
// form has, in each object that the form covers, no duplicate members in any spelling, and no member that differs from a known one only by case.
//
// A form is built once, before its first use, and is then safe for concurrent use. A nil form is for values whose names are chosen by users, at any
// depth: nothing in them is checked.
type Form struct {
	kind      formKind
	bothCases bool   // names are known in both camelCase and snake_case
	table     []name // by hash, open addressing; its length is a power of two
	known     int    // entries of the table
	ids       uint32
	other     *Form // of the values of unknown members
}

type formKind uint8

const (
	uniqueNames formKind = iota // each once; none are known
	knownNames                  // each once, regardless of case, and known ones only in their own case
	userNames                   // any
)

// name is a known member.
type name struct {
	word uint64 // the first bytes of text
	text string
	id   uint32 // equal for two spellings of one member; 0: an empty slot of the table
	of   *Form  // of its value
}

// is reports whether a key, whose first bytes are word, is this name. Most names differ in their first bytes.
func (n *name) is(key []byte, word uint64) bool {
	return n.word == word && len(n.text) == len(key) && (len(key) <= 8 || n.text[8:] == string(key[8:]))
}

// wordOf returns the first bytes of a key, at most eight.
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

// Unique is the form of texts with unknown members: none occurs twice in the same case, at any depth.
var Unique = func() *Form {
	f := &Form{}
	f.other = f
	return f
}()

// topUnique is a form that only checks the members at the top.
var topUnique = &Form{}

// NewForm returns a form with known members, whose values are of the same form. Values of unknown members are Unique.
func NewForm(names ...string) *Form {
	f := &Form{kind: knownNames, other: Unique}
	return f.Add(f, names...)
}

// NewCamelForm is NewForm for readers that accept each member under two names: names are in camelCase, and also known in snake_case.
func NewCamelForm(names ...string) *Form {
	f := &Form{kind: knownNames, bothCases: true, other: Unique}
	return f.Add(f, names...)
}

// Map returns the form of objects whose names are chosen by users, with values of a form.
func Map(values *Form) *Form { return &Form{kind: userNames, other: values} }

// Add makes members known whose values are of another form; nil for values with names chosen by users. It replaces earlier entries of these members.
// It returns f.
func (f *Form) Add(of *Form, names ...string) *Form {
	for _, n := range names {
		f.ids++
		f.put(name{text: n, id: f.ids, of: of})
		if snake := snakeCase(n); f.bothCases && snake != n {
			f.put(name{text: snake, id: f.ids, of: of})
		}
	}
	return f
}

// Others sets the form of unknown members' values. It returns f.
func (f *Form) Others(of *Form) *Form {
	f.other = of
	return f
}

// Clone returns a copy that can be changed independently. The values of its members have the same forms as f's; those of form f become the copy's.
func (f *Form) Clone() *Form {
	c := *f
	c.table = append([]name(nil), f.table...)
	return &c
}

// Knows reports whether a member is known in exactly this spelling.
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

// find returns the known member of this name, or one that differs from it only by case (exact is false); nil if there is none.
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

// findLenient returns the known member for which a lenient reader may take an unknown name: one with non-ASCII letters that fold to ASCII ones, one that
// ends in a NUL for readers in C, and, where there are two spellings, a mixture of them.
func (f *Form) findLenient(key []byte) *name {
	odd := false
	for _, c := range key {
		odd = odd || c >= 0x80 || c == 0 || c == '_' && f.bothCases
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
		case '\u0131', '\u0130': // dotless i, and capital I with a dot
			return 'i'
		case '\u017f': // the long s
			return 's'
		case '\u212a': // the kelvin sign
			return 'k'
		case '_':
			if f.bothCases {
				return -1
			}
		}
		return r
	}, string(plain)))
	found, _ := f.find(plain)
	return found
}

// nameHash is equal for names that differ only in the case of ASCII letters. word is the key's first bytes.
func nameHash(key []byte, word uint64) uint32 {
	const lower = 0x2020202020202020
	last := uint64(0)
	if n := len(key); n > 8 {
		last = binary.LittleEndian.Uint64(key[n-8:])
	}
	h := ((word|lower)*0x9e3779b97f4a7c15 ^ (last | lower)) * 0xd6e8feb86659fd93
	return uint32(h>>32) ^ uint32(len(key)) //nolint:gosec // of a hash, any bits will do
}

// equalFold reports whether two names are equal except for the case of ASCII letters.
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

// snakeCase converts a camelCase name to snake_case.
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
