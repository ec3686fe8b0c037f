package jsonx

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of arrays and objects.
const MaxDepth = 512

// Scan validates b as exactly one JSON object and records its top-level members. Top-level keys must be unique, even if spelled with escapes: parsers
// that use different duplicates allow bypassing a check. Nested objects are not checked for this; see Form.Scan. The error is a *SyntaxError. The Doc
// aliases b, which must not change afterwards.
func Scan(b []byte) (Doc, error) { return topUnique.Scan(b) }

// notAnObject returns why b, whose first character is not an opening brace, is refused: what is not visible in an editor is named.
func notAnObject(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		return "expected a JSON object, found a byte order mark"
	case bytes.HasPrefix(b, []byte("\xff\xfe")), bytes.HasPrefix(b, []byte("\xfe\xff")):
		return "expected a JSON object in UTF-8, found UTF-16"
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		return "expected a JSON object, found gzip"
	}
	return "expected a JSON object"
}

// Scan is jsonx.Scan for a text whose members must follow a form, at any depth.
func (f *Form) Scan(b []byte) (Doc, error) {
	s := scanner{b: b, words: true}
	i := skipSpace(b, 0)
	if i == len(b) {
		return Doc{}, syntaxError(b, i, "the body is empty; expected a JSON object")
	}
	if b[i] != '{' {
		return Doc{}, syntaxError(b, i, notAnObject(b))
	}
	s.noteAll()
	if s.draft != nil {
		defer drafts.Put(s.draft)
	}
	members, end := s.members(i, f)
	if end < 0 || !s.ends(end) {
		return Doc{}, s.error()
	}
	return Doc{b, members, s.stats, s.parser()}, nil
}

// Valid returns a *SyntaxError unless b is exactly one JSON value.
func Valid(b []byte) error {
	_, err := Parse(b)
	return err
}

// Parse validates b as exactly one JSON value of any kind and returns it. The error is a *SyntaxError.
func Parse(b []byte) (Value, error) { return (*Form)(nil).Parse(b) }

// Parse is jsonx.Parse for a text whose members must follow a form, at any depth.
func (f *Form) Parse(b []byte) (Value, error) {
	s := scanner{b: b}
	start := skipSpace(b, 0)
	end := s.value(start, 1, f)
	if end < 0 || !s.ends(end) {
		return Value{}, s.error()
	}
	return Value{Raw: b[start:end], At: start}, nil
}

// scanner validates a text. Its methods take the start offset of a value and return its end, or -1 after fail.
type scanner struct {
	b         []byte
	stats     Stats
	words     bool    // whether stats.Keys and stats.Values are collected
	places    []place // of values, as far as there is room
	maxPlaces int     // that places may grow to; 0: they do not grow
	draft     *draft  // where places are, of a document; nil for others
	noted     int     // number of values, with or without room
	long      []span  // long strings; nil if they are not recorded
	escapes   int     // in strings so far
	elements  int     // of the array that ended last
	names     names
	at        int
	msg       string
	problem   problem  // a problem of a member's name at offset at; msg is the name that it collides with
	path      []string // to that member, innermost first
}

// problem is a problem of a member's name.
type problem uint8

const (
	givenTwice problem = iota + 1
	differsByCase
)

func (s *scanner) fail(at int, msg string) int {
	s.at, s.msg = at, msg
	if at >= len(s.b) {
		s.msg = "unexpected end of JSON"
	}
	return -1
}

// refuse records that a member's name at an offset collides with another.
func (s *scanner) refuse(at int, p problem, other string) { s.at, s.msg, s.problem = at, other, p }

func (s *scanner) error() error {
	if s.problem == 0 {
		return syntaxError(s.b, s.at, s.msg)
	}
	return s.nameError()
}

func (s *scanner) ends(i int) bool {
	if i = skipSpace(s.b, i); i < len(s.b) {
		s.fail(i, "unexpected text after the JSON value")
		return false
	}
	return true
}

// members scans the top-level object at i.
func (s *scanner) members(i int, f *Form) ([]Member, int) {
	members := make([]Member, 0, 16)
	o := objectState{start: i}
	i = skipSpace(s.b, i+1)
	if i < len(s.b) && s.b[i] == '}' {
		return members, i + 1
	}
	for {
		key, value := s.name(i)
		if value < 0 {
			return nil, -1
		}
		known, of, ok := s.member(f, key, i, &o)
		if !ok {
			return nil, -1
		}
		m := Member{KeyStart: i, Start: value}
		n := s.begin(value)
		if m.End = s.value(value, 2, of); m.End < 0 {
			return nil, s.inMember(i)
		}
		s.finish(n, m.End)
		if s.places != nil {
			m.place = n + 1
		}
		m.Kind = kindOf(s.b[value])
		if known != nil {
			m.Key = known.text
		} else {
			m.Key = string(key)
		}
		if m.Kind == Array {
			m.Len = s.elements
		}
		members = append(members, m)
		i = skipSpace(s.b, m.End)
		if i < len(s.b) && s.b[i] == '}' {
			return members, i + 1
		}
		if i >= len(s.b) || s.b[i] != ',' {
			return nil, s.fail(i, "expected ',' or '}'")
		}
		i = skipSpace(s.b, i+1)
	}
}

// name scans a member's key and colon, and returns the key's text and where the value starts.
func (s *scanner) name(i int) (text []byte, value int) {
	escapes := s.escapes
	end, value := s.key(i)
	if value < 0 {
		return nil, -1
	}
	text = s.b[i+1 : end-1]
	if s.escapes != escapes {
		text = appendUnescaped(nil, text)
	}
	return text, value
}

// key scans a member's key and colon, and returns where the key ends and the value starts.
func (s *scanner) key(i int) (end, value int) {
	if i >= len(s.b) || s.b[i] != '"' {
		return 0, s.fail(i, "expected a key in double quotes")
	}
	escapes := s.escapes
	if end = s.string(i); end < 0 {
		return 0, -1
	}
	if s.words {
		s.stats.Keys.addKey(s.b[i+1:end-1], s.escapes != escapes)
	}
	i = skipSpace(s.b, end)
	if i >= len(s.b) || s.b[i] != ':' {
		return 0, s.fail(i, "expected ':'")
	}
	return end, skipSpace(s.b, i+1)
}

// value scans the value at i, at nesting level depth, whose objects are of a form.
func (s *scanner) value(i, depth int, f *Form) int {
	if i >= len(s.b) {
		return s.fail(i, "")
	}
	switch c := s.b[i]; c {
	case '"':
		end := s.string(i)
		if end >= 0 {
			s.count(s.b[i+1 : end-1])
			s.note(i, end)
		}
		return end
	case '{':
		return s.object(i, depth, f)
	case '[':
		return s.array(i, depth, f)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		return s.number(i)
	}
}

func (s *scanner) object(i, depth int, f *Form) int {
	if depth > MaxDepth {
		return s.fail(i, "nested too deeply")
	}
	o := objectState{start: i, first: len(s.names.list)}
	i = skipSpace(s.b, i+1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		escapes := s.escapes
		end, value := s.key(i)
		if value < 0 {
			return -1
		}
		of := f
		if f != nil {
			key := s.b[i+1 : end-1]
			if s.escapes != escapes {
				key = appendUnescaped(nil, key)
			}
			var ok bool
			if _, of, ok = s.member(f, key, i, &o); !ok {
				return -1
			}
		}
		s.stats.TextBytes += int64(value - i)
		n := s.beginMember(i, value, s.escapes == escapes)
		at := i
		if i = s.value(value, depth+1, of); i < 0 {
			return s.inMember(at)
		}
		s.finish(n, i)
		i = skipSpace(s.b, i)
		if i >= len(s.b) {
			return s.fail(i, "")
		}
		switch s.b[i] {
		case '}':
			s.names.popObject(o.first)
			return i + 1
		case ',':
			i = skipSpace(s.b, i+1)
		default:
			return s.fail(i, "expected ',' or '}'")
		}
	}
}

func (s *scanner) array(i, depth int, f *Form) int {
	if depth > MaxDepth {
		return s.fail(i, "nested too deeply")
	}
	i = skipSpace(s.b, i+1)
	if i < len(s.b) && s.b[i] == ']' {
		s.elements = 0
		return i + 1
	}
	for index := 0; ; index++ {
		n := s.begin(i)
		if i = s.value(i, depth+1, f); i < 0 {
			return s.inElement(index)
		}
		s.finish(n, i)
		i = skipSpace(s.b, i)
		if i >= len(s.b) {
			return s.fail(i, "")
		}
		switch s.b[i] {
		case ']':
			s.elements = index + 1
			return i + 1
		case ',':
			i = skipSpace(s.b, i+1)
		default:
			return s.fail(i, "expected ',' or ']'")
		}
	}
}

func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.b) && string(s.b[i:end]) == word {
		return end
	}
	return s.fail(i, "expected a JSON value")
}

func (s *scanner) number(i int) int {
	end := numberEnd(s.b, i)
	if end < 0 {
		return s.fail(i, "expected a JSON value")
	}
	return end
}

// numberEnd returns the end of the number at i, or -1 if there is none.
func numberEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := digits(b, i)
	if whole == i || (b[i] == '0' && whole > i+1) {
		return -1
	}
	i = whole
	if i < len(b) && b[i] == '.' {
		frac := digits(b, i+1)
		if frac == i+1 {
			return -1
		}
		i = frac
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exp := digits(b, i)
		if exp == i {
			return -1
		}
		i = exp
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// string validates the string whose opening quote is at i. Most strings are plain and short, and end within the first words.
func (s *scanner) string(i int) int {
	b, start := s.b, i+1
	for i = start; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		hit := special(w)
		if (hit|w)&highs == 0 {
			continue
		}
		if end := i + bits.TrailingZeros64(hit)>>3; w&highs == 0 && b[end] == '"' {
			return end + 1
		}
		break
	}
	return s.longString(start, i)
}

// longString validates the rest of a string from i on. The part before is plain.
func (s *scanner) longString(start, i int) int {
	b, seen, escapes := s.b, uint64(0), 0
	for {
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			seen |= w // may include bytes after the string, which then causes an unnecessary check
			hit := special(w)
			if hit == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(hit) >> 3
		} else if i = s.shortRest(i, &seen); i < 0 {
			return -1
		}
		switch {
		case b[i] == '"':
			s.escapes += escapes
			if seen&highs != 0 && !utf8.Valid(b[start:i]) {
				return s.fail(start+invalidAt(b[start:i]), "a string is not valid UTF-8")
			}
			return i + 1
		case b[i] != '\\':
			return s.fail(i, "a control character in a string must be escaped")
		}
		escapes++
		if i+1 < len(b) && shortText[b[i+1]] != 0 {
			i += 2
		} else if i = s.escape(i); i < 0 {
			return -1
		}
	}
}

// shortRest returns the offset of the next quote, backslash or control character in the last bytes of the text, or -1 after fail.
func (s *scanner) shortRest(i int, seen *uint64) int {
	i, plain := skipPlain(s.b, i)
	if !plain {
		*seen |= highs
	}
	if i >= len(s.b) {
		return s.fail(i, "")
	}
	return i
}

// escape validates an escape that is not in shortText.
func (s *scanner) escape(i int) int {
	if i+1 >= len(s.b) {
		return s.fail(i+1, "")
	}
	if s.b[i+1] == 'u' {
		if i+6 > len(s.b) {
			return s.fail(len(s.b), "")
		}
		if r, ok := hex4(s.b[i+2 : i+6]); ok {
			if r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' {
				s.stats.Spelled++
			}
			return i + 6
		}
	}
	return s.fail(i, "invalid escape in a string")
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// count adds a string value to the statistics.
func (s *scanner) count(text []byte) {
	if len(text) <= maxWord && s.words {
		s.stats.Values.add(text)
	}
	if looksOpaque(text) {
		s.stats.Opaque++
		return
	}
	s.stats.TextBytes += int64(len(text))
}

// looksOpaque reports whether a text looks like encoded data: long, without spaces, and a data: URL or in base64's alphabet.
func looksOpaque(text []byte) bool {
	const long, sample = 1024, 256
	if len(text) <= long || bytes.IndexByte(text, ' ') >= 0 {
		return false
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		return true
	}
	for _, c := range text[:sample] {
		if !base64Alphabet[c] {
			return false
		}
	}
	return true
}

var base64Alphabet = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\\") {
		t[c] = true
	}
	return t
}()

func syntaxError(b []byte, at int, msg string) *SyntaxError {
	before := b[:min(at, len(b))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return &SyntaxError{Offset: len(before), Line: line, Column: column, Msg: msg}
}
