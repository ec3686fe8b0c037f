package pii

import (
	"context"
	"strings"
)

// Detectors is the built-in detector. It reads a text once and looks closer only where a byte or a word begins a candidate. The zero value finds nothing.
// Safe for concurrent use.
type Detectors struct {
	Types   []Type   // that are looked for
	Regions []string // whose national phone numbers are known without a label, as ISO 3166 codes: "DE"
}

var _ Detector = Detectors{}

// Classes of bytes.
const (
	digit = 1 << iota
	lower
	upper
	underscore
	start // begins a candidate by itself
)

const (
	letter = lower | upper
	word   = digit | letter | underscore
)

var classes = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9':
			t[c] = digit
		case c >= 'a' && c <= 'z':
			t[c] = lower
		case c >= 'A' && c <= 'Z':
			t[c] = upper
		case c == '_':
			t[c] = underscore
		}
	}
	for _, c := range []byte("@+(-:" + "\xe3\xe5\xe6\xe7\xe9") { // the latter begin characters of Japanese addresses and names
		t[c] = start
	}
	return t
}()

// scan is one pass over a text.
type scan struct {
	Detectors
	text   string
	out    []Span
	phrase phrase
	masks  wanted
	looked int  // bytes of what might be secrets: see longest
	groups int  // strings and numbers of JSON that may be groups of a card's number: see split
	named  bool // a name of a member says that it is a part of a name: see members
}

// wanted is a set of the built-in types.
type wanted uint16

// bitOf is a type in a set; 0 for one that is not built in.
func bitOf(t Type) wanted {
	switch t {
	case PrivateKey:
		return 1 << 0
	case SeedPhrase:
		return 1 << 1
	case Secret:
		return 1 << 2
	case Password:
		return 1 << 3
	case IBAN:
		return 1 << 4
	case Card:
		return 1 << 5
	case SSN:
		return 1 << 6
	case Email:
		return 1 << 7
	case Phone:
		return 1 << 8
	case EVMAddress:
		return 1 << 9
	case IP:
		return 1 << 10
	case Postal:
		return 1 << 11
	case Name:
		return 1 << 12
	default:
		return 0
	}
}

// Find implements Detector.
func (d Detectors) Find(_ context.Context, text string, out []Span) ([]Span, error) {
	s := scan{Detectors: d, text: text, out: out}
	for _, t := range d.Types {
		s.masks |= bitOf(t)
	}
	s.run()
	out = d.wide(text, s.masks, s.out)
	if s.groups >= fewestGroups {
		out = d.split(text, s.masks, out)
	}
	if s.named {
		out = d.members(text, s.masks, out)
	}
	return out, nil
}

// run reads the text.
func (s *scan) run() {
	for i := 0; i < len(s.text); {
		switch c := classes[s.text[i]]; {
		case c&word != 0:
			i = s.word(i)
		case c == start:
			i = s.mark(i)
		default:
			i++
		}
	}
	s.phrase.finish(s)
}

// wants reports whether a type is looked for.
func (s *scan) wants(t Type) bool { return s.masks&bitOf(t) != 0 }

// add notes a value.
func (s *scan) add(from, to int, t Type, confidence float32) {
	if s.wants(t) {
		s.out = append(s.out, Span{from, to, t, confidence})
	}
}

// mark reads a candidate that begins with a mark, and returns where to continue.
func (s *scan) mark(i int) int {
	switch s.text[i] {
	case '@':
		s.email(i)
	case '+', '(':
		if end := s.phone(i); end > 0 {
			return end
		}
	case '-':
		if end := s.pem(i); end > 0 {
			return end
		}
	case ':':
		s.url(i)
	case 0xe3, 0xe5, 0xe6, 0xe7, 0xe9:
		switch s.text[i:min(i+3, len(s.text))] {
		case "県", "都", "府", "道", "〒":
			if end := s.japanese(i); end > 0 {
				return end
			}
		case "様", "さ", "氏":
			s.honoured(i)
		case "名":
			s.labelledName(i)
			s.named = s.named || s.at(i+3) == '"'
		case "姓":
			s.named = s.named || s.at(i+3) == '"'
		}
	}
	return i + 1
}

// word reads the word at i, and returns where to continue: behind it, or behind the value that it begins.
func (s *scan) word(i int) int {
	end, has := i, uint8(0)
	for end < len(s.text) && classes[s.text[end]]&word != 0 {
		has |= classes[s.text[end]]
		end++
	}
	s.phrase.word(s, i, end, has)
	if has&digit == 0 {
		s.named = s.named || i > 0 && s.isNameKey(i, end)
		s.secret(i, end)
		return end
	}
	if classes[s.text[i]]&digit != 0 {
		if n := end - i; n >= 3 && n <= 6 && s.isJSON(i, end) {
			s.groups++
		}
		if to := s.postal(i, end); to > end {
			return to
		}
		if to := s.number(i, end, has); to > end {
			return to
		}
	}
	s.secret(i, end)
	s.key(i, end, has)
	s.iban(i, end)
	return end
}

// isJSON reports whether text[i:end] stands in quotes, or as a number of JSON does.
func (s *scan) isJSON(i, end int) bool {
	switch s.at(end) {
	case '"':
		return s.at(i-1) == '"'
	case ',', ']', '}', ' ', '\n', '\r', '\t':
		return strings.IndexByte(",:[ \n\t", s.at(i-1)) >= 0
	}
	return false
}

// at is the byte at i, and 0 outside of the text.
func (s *scan) at(i int) byte {
	if i < 0 || i >= len(s.text) {
		return 0
	}
	return s.text[i]
}

// is reports whether the byte at i is of one of the classes.
func (s *scan) is(i int, class uint8) bool { return classes[s.at(i)]&class != 0 }
