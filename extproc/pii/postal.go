package pii

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Postal addresses. An address is found at its house number, or at the number of its PO box, and only together with the name of a street and a postcode with its
// place: streets alone, and numbers before names, are in any text. The order of the parts distinguishes the formats:
//
//	123 N Main St, Apt 4, Springfield, IL 62704    the United States, Canada, the United Kingdom, Australia
//	12 rue de la Paix, 75002 Paris                 France, Belgium
//	Hauptstraße 5, 10115 Berlin                    Germany and others that write the number behind the street
//	PO Box 12, Springfield, IL 62704               PO boxes, with any of these places

// postalConfidence is the confidence of an address, which has no checksum.
const postalConfidence = 0.9

// Limits of the parts of an address.
const (
	maxHouse       = 6  // bytes of a house number
	maxStreetWords = 6  // of a street's name
	maxPlaceWords  = 10 // between the street and the postcode
	maxNameWord    = 40 // bytes of a word
)

// postal parses the postal address around the house number that is the word at i. It returns its end, or 0 for none.
func (s *scan) postal(i, end int) int {
	if !s.wants(Postal) || end-i > maxHouse || i > 0 && strings.IndexByte(" \t\r\n\"'(<>,:;[|=\xa0", s.text[i-1]) < 0 {
		return 0
	}
	end = s.house(i, end)
	if end == 0 {
		return 0
	}
	if to := s.english(end); to > 0 {
		return s.addPostal(i, to)
	}
	if to := s.french(end); to > 0 {
		return s.addPostal(i, to)
	}
	if to := s.small(end); to > 0 {
		return s.addPostal(i, to)
	}
	box, to := s.boxBefore(i), s.town(end)
	if to == 0 && box >= 0 {
		to = s.placeAndCode(end)
	}
	if box < 0 && to > 0 {
		box = s.streetBefore(i)
	}
	if to == 0 || box < 0 {
		if box, to = s.smallGerman(i, end); to == 0 {
			return 0
		}
	}
	return s.addPostal(box, to)
}

func (s *scan) addPostal(from, to int) int {
	s.add(from, to, Postal, postalConfidence)
	return to
}

// house returns the end of the house number at i: 12, 221B, 12-14; 0 if it is none.
func (s *scan) house(i, end int) int {
	digits := s.group(i)
	if end-digits > 1 || digits < end && !s.is(digits, letter) || s.text[i] == '0' {
		return 0
	}
	if s.at(end) == '-' && s.is(end+1, digit) {
		if end = s.group(end + 1); s.is(end, word) {
			return 0
		}
	}
	return end
}

// english parses a street whose name has a word such as "Street", and the rest up to the postcode.
func (s *scan) english(at int) int {
	for n := range maxStreetWords {
		if s.at(at) != ' ' {
			return 0
		}
		from := at + 1
		if at = s.streetWord(from); at == from {
			return 0
		}
		ends := n > 0 || strings.EqualFold(s.text[from:at], "Broadway") || strings.HasPrefix(s.text[at:], " of ")
		if ends && s.among(from, at, streetWords) {
			if to := s.placeAndCode(at); to > 0 {
				return to
			}
		}
	}
	return 0
}

// streetWord returns the end of the word of a street's name at i: a capitalised word, a short one such as "of", or an ordinal number; i if there is none.
func (s *scan) streetWord(i int) int {
	if end := s.group(i); end > i {
		if at := end + 2; at <= len(s.text) && !s.is(at, word) && s.among(end, at, ordinals) {
			return at
		}
		return i
	}
	return s.properWord(i)
}

// properWord returns the end of the capitalised word, or of the small word in names, at i; i if there is none.
func (s *scan) properWord(i int) int {
	end := s.letters(i)
	if end > i && (s.isCapital(i) || s.among(i, end, smallWords)) {
		return end
	}
	return i
}

// letters returns the end of the word of letters at i, with a point after it, and apostrophes and hyphens within it.
func (s *scan) letters(i int) int {
	at := i
	for at < len(s.text) && at-i < maxNameWord {
		switch c := s.text[at]; {
		case classes[c]&letter != 0, c >= utf8.RuneSelf && !strings.HasPrefix(s.text[at:], nbsp):
			at++
			continue
		case (c == '\'' || c == '-') && at > i && (s.is(at+1, letter) || s.at(at+1) >= utf8.RuneSelf):
			at++
			continue
		case c == '.' && at > i:
			return at + 1
		}
		break
	}
	if s.is(at, digit|underscore) {
		return i
	}
	return at
}

func (s *scan) isCapital(i int) bool {
	r, _ := utf8.DecodeRuneInString(s.text[i:])
	return unicode.IsUpper(r)
}

// placeAndCode parses the parts of an address between its street and its postcode, and the postcode.
func (s *scan) placeAndCode(at int) int {
	unit := false
	for range maxPlaceWords {
		from := s.gap(at)
		if from == at {
			return 0
		}
		if to := s.postcode(from); to > 0 {
			return to
		}
		if s.at(from) == '#' || unit && s.is(from, digit|upper) {
			unit = false
			if at = s.unitEnd(from); at-from > maxHouse {
				return 0
			}
			continue
		}
		end := s.letters(from)
		unit = s.among(from, end, unitWords)
		if at = s.properWord(from); at == from {
			if !unit {
				return 0
			}
			at = end
		}
	}
	return 0
}

// unitEnd returns the end of the number of a flat at i: 4B, #5.
func (s *scan) unitEnd(i int) int {
	for i++; s.is(i, letter|digit); i++ {
	}
	return i
}

// gap returns the end of the separator between two parts of an address: white space with at most one comma and one line break; at if there is none.
func (s *scan) gap(at int) int {
	commas, breaks := 0, 0
	from := at
	for ; at < len(s.text) && at-from < 8; at++ {
		switch s.text[at] {
		case ' ', '\t', '\r':
			continue
		case ',':
			commas++
		case '\n':
			breaks++
		default:
			return at
		}
		if commas > 1 || breaks > 1 {
			return at
		}
	}
	return at
}

// postcode parses a postcode of the United States, Canada, the United Kingdom or Australia at i, with the state or province before it where required.
func (s *scan) postcode(i int) int {
	if to := s.commonwealthCode(i); to > 0 {
		return to
	}
	end := s.state(i)
	if end == 0 {
		return 0
	}
	at := s.gap(end)
	if at == end {
		return 0
	}
	if s.among(i, end, australia) {
		if to := s.group(at); to-at == 4 && s.bounded(to) {
			return to
		}
	}
	if s.among(i, end, provinces) {
		if to := s.commonwealthCode(at); to > 0 {
			return to
		}
	}
	to := s.group(at)
	if to-at != 5 || !s.isState(i, end) {
		return 0
	}
	if s.at(to) == '-' && s.group(to+1) == to+5 {
		to += 5
	}
	if !s.bounded(to) {
		return 0
	}
	return to
}

// bounded reports whether a number ends at i.
func (s *scan) bounded(i int) bool {
	return !s.is(i, word) && (s.at(i) != '.' && s.at(i) != '-' && s.at(i) != ',' || !s.is(i+1, digit))
}

// state returns the end of the name or code of a state or province at i; 0 if there is none.
func (s *scan) state(i int) int {
	end := i
	for s.is(end, upper) {
		end++
	}
	if n := end - i; n >= 2 && n <= 3 && !s.is(end, word) && (s.isState(i, end) || s.among(i, end, provinces) || s.among(i, end, australia)) {
		return end
	}
	for _, name := range stateNames {
		if end = i + len(name); end <= len(s.text) && strings.EqualFold(s.text[i:end], name) && s.isCapital(i) && !s.is(end, word) {
			return end
		}
	}
	return 0
}

// isState reports whether text[from:to], which state has parsed, is of the United States.
func (s *scan) isState(from, to int) bool { return to-from > 3 || s.among(from, to, states) }

// outwards are the formats of the first half of a British postcode.
var outwards = []string{"A9", "A99", "A9A", "AA9", "AA99", "AA9A"}

// commonwealthCode parses a postcode of the United Kingdom (SW1A 2AA) or of Canada (M5V 2T6), in capitals.
func (s *scan) commonwealthCode(i int) int {
	first := i
	for s.is(first, upper|digit) {
		first++
	}
	outward := s.text[i:first]
	if s.at(first) != ' ' || len(outward) < 2 || len(outward) > 4 {
		return 0
	}
	end := first + 4
	if end > len(s.text) || s.is(end, word) {
		return 0
	}
	inward := shape(s.text[first+1 : end])
	switch o := shape(outward); {
	case o == "A9A" && inward == "9A9":
		if strings.IndexByte("ABCEGHJKLMNPRSTVXY", outward[0]) >= 0 {
			return end
		}
	case inward == "9AA" && slices.Contains(outwards, o):
		if strings.IndexByte("QVX", outward[0]) < 0 {
			return end
		}
	}
	return 0
}

// shape returns a text with A for each capital and 9 for each digit.
func shape(s string) string {
	var b [4]byte
	n := min(len(s), len(b))
	for i := range n {
		switch {
		case classes[s[i]]&upper != 0:
			b[i] = 'A'
		case classes[s[i]]&digit != 0:
			b[i] = '9'
		}
	}
	return string(b[:n])
}

// french parses a street whose kind is its first word, and its town.
func (s *scan) french(at int) int {
	if s.at(at) == ' ' {
		if end := s.letters(at + 1); s.among(at+1, end, repeated) {
			at = end
		}
	}
	from := s.gap(at)
	if from == at || strings.IndexByte(s.text[at:from], '\n') >= 0 {
		return 0
	}
	if at = s.letters(from); !s.among(from, at, frenchWords) {
		return 0
	}
	for range maxStreetWords {
		if to := s.town(at); to > 0 {
			return to
		}
		if s.at(at) != ' ' {
			return 0
		}
		from = at + 1
		if at = s.letters(from); at == from {
			return 0
		}
	}
	return s.town(at)
}

// town parses the rest after a European street: a comma or a line break, a postcode and the name of the town.
func (s *scan) town(at int) int {
	from := s.gap(at)
	if !strings.ContainsAny(s.text[at:from], ",\n") {
		return 0
	}
	if end := s.landEnd(from); s.among(from, end, lands) {
		from = end + 1
	}
	at = s.group(from)
	if n := at - from; n != 4 && n != 5 || s.at(at) != ' ' {
		return 0
	}
	if at-from == 4 && s.is(at+1, upper) && s.is(at+2, upper) && s.at(at+3) == ' ' { // 1015 CJ Amsterdam
		at += 3
	}
	at++
	end := s.letters(at)
	if end-at < 3 || !s.isCapital(at) || end-at == 3 && s.is(at+1, upper) { // a unit, such as EUR
		return 0
	}
	if s.among(at, end, townWords) && s.at(end) == ' ' {
		if next := s.letters(end + 1); next > end+1 && s.isCapital(end+1) {
			end = next
		}
	}
	if s.text[end-1] == '.' { // of the sentence
		end--
	}
	return end
}

// landEnd returns the end of the letters of a country before a postcode: D-10115; i if there are none.
func (s *scan) landEnd(i int) int {
	end := i
	for s.is(end, upper) {
		end++
	}
	if s.at(end) != '-' {
		return i
	}
	return end
}

// streetBefore returns the start of the street before the house number at i; -1 if there is none.
func (s *scan) streetBefore(i int) int {
	end := i
	for end > 0 && (s.text[end-1] == ' ' || s.text[end-1] == ',') && i-end < 2 {
		end--
	}
	if end == i {
		return -1
	}
	behind := s.text[end:i] == " "
	for n := range maxStreetWords {
		from := end
		for from > 0 && end-from < maxNameWord && strings.IndexByte(" \t\r\n,;:(\"", s.text[from-1]) < 0 {
			from--
		}
		if from == end {
			return -1
		}
		capital := s.isCapital(from)
		switch {
		case capital && s.among(from, end, leadingWords) && n > 0:
			return from
		case n == 0 && behind && capital && endsStreet(s.text[from:end]):
			return from
		case n == 1 && behind && capital && s.among(end+1, s.letters(end+1), streetEnds):
			return from
		case !capital && !s.among(from, end, smallWords):
			return -1
		}
		if from == 0 || s.text[from-1] != ' ' {
			return -1
		}
		end = from - 1
	}
	return -1
}

// endsStreet reports whether a word is the name of a street, such as Hauptstraße.
func endsStreet(w string) bool {
	for _, suffix := range streetSuffixes {
		if len(w) > len(suffix)+1 && strings.EqualFold(w[len(w)-len(suffix):], suffix) {
			return true
		}
	}
	return false
}

// boxBefore returns the start of the words for a PO box before the number at i; -1 if there are none.
func (s *scan) boxBefore(i int) int {
	for _, w := range boxWords {
		if from := i - len(w); from >= 0 && strings.EqualFold(s.text[from:i], w) && !s.is(from-1, word) {
			return from
		}
	}
	return -1
}

// among reports whether text[from:to], without a trailing point, is one of some words, whose ASCII letters are in lower case.
func (s *scan) among(from, to int, all map[string]bool) bool {
	if to > from && s.text[to-1] == '.' {
		to--
	}
	var b [16]byte
	n := to - from
	if n <= 0 || n > len(b) {
		return false
	}
	for k := range n {
		b[k] = lowerASCII(s.text[from+k])
	}
	return all[string(b[:n])]
}
