package jsonx

import (
	"bytes"
	"fmt"
)

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. Invalid is the kind of an absent value.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

var kindNames = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "an array"}

// String returns the kind as used in a sentence: "a string".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Invalid]
}

// kindOf returns a value's kind by its first byte.
func kindOf(c byte) Kind {
	switch c {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return Invalid
}

// Doc is a validated JSON object with the offsets of its top-level members. It aliases the scanned bytes. Neither they nor Bytes may change.
type Doc struct {
	Bytes   []byte
	Members []Member
	Stats   Stats

	parser *Parser // of its Values
}

// Member is one top-level member. Offsets are into Doc.Bytes; End is excluded.
type Member struct {
	Key      string
	KeyStart int // the key's opening quote
	Start    int // the value
	End      int
	Kind     Kind
	Len      int // elements of an array

	place int // of the value: its index in Parser.places + 1; 0 if it was not recorded
}

// Stats are counted while scanning.
type Stats struct {
	TextBytes int64 // bytes inside strings that look like text: values anywhere, keys below the top level
	Opaque    int   // string values that look like base64 data
	Spelled   int   // escapes of letters, digits and underscores, which need none
	Keys      Words // of all members, at any depth
	Values    Words // string values of at most maxWord bytes, at any depth
}

// Find returns the index of a top-level member, or -1.
func (d *Doc) Find(key string) int {
	for i := range d.Members {
		if d.Members[i].Key == key {
			return i
		}
	}
	return -1
}

// Get returns the value of a top-level member; it does not exist if the member is absent. Its At is an offset into Doc.Bytes, as for Edits.Replace.
func (d *Doc) Get(key string) Value {
	i := d.Find(key)
	if i < 0 {
		return Value{}
	}
	return d.Value(i)
}

// Value returns the value of a top-level member, by its index.
func (d *Doc) Value(i int) Value {
	m := &d.Members[i]
	return Value{Raw(d.Bytes[m.Start:m.End]), m.Start, d.parser.placeOf(m)}
}

// MayHold reports whether any of the words may be a name or a string value in the document; false is certain. It does not read the text.
func (d *Doc) MayHold(words *Words) bool { return d.Stats.Keys.Meets(words) || d.MayHoldValue(words) }

// MayHoldValue is MayHold for string values only. A word whose letters are escaped counts as any.
func (d *Doc) MayHoldValue(words *Words) bool {
	return d.Stats.Spelled > 0 || d.Stats.Values.Meets(words)
}

// MayContain reports whether the document may contain a text; false is certain, even if letters are escaped. It reads the whole document.
func (d *Doc) MayContain(text string) bool {
	return d.Stats.Spelled > 0 || bytes.Contains(d.Bytes, []byte(text))
}

// Root returns the object itself.
func (d *Doc) Root() Value {
	start := skipSpace(d.Bytes, 0)
	return Value{Raw(bytes.TrimRight(d.Bytes[start:], " \t\r\n")), start, d.parser.placeOf(&Member{})}
}

// SyntaxError is the position and the reason for which a text is refused.
type SyntaxError struct {
	Offset int // bytes before the error
	Line   int // from 1
	Column int // in characters, from 1
	Msg    string
	Member string // path of a refused member, such as "messages[0].role"; "" where the text is not JSON
}

// Error returns the reason with its position.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at line %d, column %d", e.Msg, e.Line, e.Column)
}
