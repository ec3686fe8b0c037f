package pii

import (
	"context"
	"strings"
)

// Detectors is the built-in detector. It scans a text once, and parses candidates where a byte or word may begin one. The zero value finds nothing. Safe for
// concurrent use.
type Detectors struct {
	Types   []Type   // to be found
	Regions []string // whose national phone numbers are found without a label, as ISO 3166 codes: "DE"
}

var _ Detector = Detectors{}

// Classes of bytes.
const (
	digit = 1 << iota
	lower
	upper
	underscore
	start // may begin a candidate
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
	for _, c := range []byte("@+(-:" + "\xe3\xe5\xe6\xe7\xe9") { // the latter are first bytes of characters in Japanese addresses and names
		t[c] = start
	}
	return t
}()

// scan is one pass over a text.
type scan struct {
	Detectors
	text        string
	out         []Span
	phrase      phrase
	want        typeSet
	secretBytes int  // scanned bytes of possible secrets: see scanLimit
	groupCount  int  // number of JSON strings and numbers that may be groups of a card number: see splitCards
	hasNameKeys bool // the text may have JSON members with names of people: see memberNames
}

// typeSet is a set of the built-in types.
type typeSet uint16

// bitOf returns the bit of a type; 0 for one that is not built in.
func bitOf(t Type) typeSet {
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
		s.want |= bitOf(t)
	}
	s.run()
	out = d.wideNumbers(text, s.want, s.out)
	if s.groupCount >= minGroups {
		out = d.splitCards(text, s.want, out)
	}
	if s.hasNameKeys {
		out = d.memberNames(text, s.want, out)
	}
	return out, nil
}

// run scans the text.
func (s *scan) run() {
	for i := 0; i < len(s.text); {
		switch c := classes[s.text[i]]; {
		case c&word != 0:
			i = s.word(i)
		case c == start:
			i = s.candidate(i)
		default:
			i++
		}
	}
	s.phrase.finish(s)
}

// wants reports whether a type is to be found.
func (s *scan) wants(t Type) bool { return s.want&bitOf(t) != 0 }

// add adds a value, if its type is to be found.
func (s *scan) add(from, to int, t Type, confidence float32) {
	if s.wants(t) {
		s.out = append(s.out, Span{from, to, t, confidence})
	}
}

// candidate parses the value that may begin with the byte of class start at i, and returns where to continue.
func (s *scan) candidate(i int) int {
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
			s.nameBeforeHonorific(i)
		case "名":
			s.nameAfterLabel(i)
			s.hasNameKeys = s.hasNameKeys || s.at(i+3) == '"'
		case "姓":
			s.hasNameKeys = s.hasNameKeys || s.at(i+3) == '"'
		}
	}
	return i + 1
}

// word parses the word at i, and returns where to continue: after it, or after the value that begins with it.
func (s *scan) word(i int) int {
	end, has := i, uint8(0)
	for end < len(s.text) && classes[s.text[end]]&word != 0 {
		has |= classes[s.text[end]]
		end++
	}
	s.phrase.word(s, i, end, has)
	if has&digit == 0 {
		s.hasNameKeys = s.hasNameKeys || i > 0 && s.isNameKey(i, end)
		s.secret(i, end)
		return end
	}
	if classes[s.text[i]]&digit != 0 {
		if n := end - i; n >= 3 && n <= 6 && s.isJSON(i, end) {
			s.groupCount++
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

// isJSON reports whether text[i:end] is in quotes, or delimited like a number in JSON.
func (s *scan) isJSON(i, end int) bool {
	switch s.at(end) {
	case '"':
		return s.at(i-1) == '"'
	case ',', ']', '}', ' ', '\n', '\r', '\t':
		return strings.IndexByte(",:[ \n\t", s.at(i-1)) >= 0
	}
	return false
}

// at returns the byte at i, and 0 outside of the text.
func (s *scan) at(i int) byte {
	if i < 0 || i >= len(s.text) {
		return 0
	}
	return s.text[i]
}

// is reports whether the byte at i is of one of the classes.
func (s *scan) is(i int, class uint8) bool { return classes[s.at(i)]&class != 0 }
