package pii

import "strings"

// Addresses in lower or mixed case. Without capitals as marks of names, a comma or line break must follow the street, fewer words can end the street, and the
// names of street and town must not have common words:
//
//	12 maple street, dayton, oh 45402    the United States and Canada
//	14 acacia road, norwich nr2 4pq      the United Kingdom
//	lindenstraße 17, 50968 köln          Germany

const (
	maxSmallWords = 5 // of a street's name
	maxTownWords  = 3
)

// small parses the rest of an English address after its house number.
func (s *scan) small(at int) int {
	for n := range maxSmallWords {
		if s.at(at) != ' ' {
			return 0
		}
		from := at + 1
		if at = s.streetWord(from); at == from {
			at = s.letters(from)
		}
		if at == from || s.among(from, at, plainWords) {
			return 0
		}
		if n > 0 && s.among(from, at, smallStreets) {
			if to := s.smallPlaced(s.smallUnit(at)); to > 0 {
				return to
			}
		}
	}
	return 0
}

// smallUnit returns the end of the number of a flat after a street: ", apt 4b", " #5"; at if there is none.
func (s *scan) smallUnit(at int) int {
	from := s.gap(at)
	if end := s.letters(from); s.among(from, end, unitWords) && s.at(end) == ' ' {
		from = end + 1
	} else if s.at(from) != '#' {
		return at
	}
	end := s.unitEnd(from)
	if end-from > maxHouse || s.at(from) != '#' && !s.is(from, digit|letter) {
		return at
	}
	return end
}

// smallPlaced parses a separator, a town and the postcode.
func (s *scan) smallPlaced(at int) int {
	from := s.gap(at)
	if !strings.ContainsAny(s.text[at:from], ",\n") {
		return 0
	}
	for range maxTownWords {
		at = s.letters(from)
		if at == from || s.among(from, at, plainWords) {
			return 0
		}
		if from = s.gap(at); from == at {
			return 0
		}
		if to := s.smallCode(from, strings.ContainsAny(s.text[at:from], ",\n")); to > 0 {
			return to
		}
	}
	return 0
}

// smallCode parses a state with its postcode, or a postcode of the United Kingdom or Canada, at i. A state whose code is also a word, such as "or", needs a
// separator before it.
func (s *scan) smallCode(i int, separated bool) int {
	end := s.letters(i)
	if s.among(i, end, provinces) && s.at(end) == ' ' {
		if to := s.smallCommonwealth(end + 1); to > 0 {
			return to
		}
	}
	if to := s.smallCommonwealth(i); to > 0 {
		return to
	}
	if !s.among(i, end, states) || s.among(i, end, wordStates) && !separated {
		if end = s.stateName(i); end == 0 {
			return 0
		}
	}
	at := s.gap(end)
	to := s.group(at)
	if at == end || to-at != 5 {
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

// smallCommonwealth is commonwealthCode for any case.
func (s *scan) smallCommonwealth(i int) int {
	code := scan{text: strings.ToUpper(s.text[i:min(i+len("SW1A 2AAx"), len(s.text))])}
	if to := code.commonwealthCode(0); to > 0 && !s.is(i+to, word) {
		return i + to
	}
	return 0
}

// stateName returns the end of the name of a state at i, in any case; 0 if there is none.
func (s *scan) stateName(i int) int {
	for _, name := range stateNames {
		if end := i + len(name); end <= len(s.text) && strings.EqualFold(s.text[i:end], name) && !s.is(end, word) {
			return end
		}
	}
	return 0
}

// smallGerman parses the name of a street before the house number text[i:end], and the town after it. It returns the start and the end of the address; to is 0 for
// none.
func (s *scan) smallGerman(i, end int) (from, to int) {
	if from = s.smallStreet(i); from < 0 {
		return 0, 0
	}
	at := s.gap(end)
	if !strings.ContainsAny(s.text[end:at], ",\n") {
		return 0, 0
	}
	code := s.group(at)
	if code-at != 5 || s.at(code) != ' ' || strings.HasSuffix(s.text[at:code], "000") { // a count
		return 0, 0
	}
	to = s.letters(code + 1)
	if to-code < 4 || s.among(code+1, to, countedWords) {
		return 0, 0
	}
	if s.text[to-1] == '.' { // of the sentence
		to--
	}
	return from, to
}

// smallStreet returns the start of the name of a German street that ends with a space before i; -1 for none: lindenstraße, or a word such as allee after the
// name of a town in -er, or after an adjective of streets.
func (s *scan) smallStreet(i int) int {
	if s.at(i-1) != ' ' {
		return -1
	}
	from := s.wordBefore(i - 1)
	if s.among(from, i-1, smallWays) && s.at(from-1) == ' ' {
		first := s.wordBefore(from - 1)
		name := strings.ToLower(s.text[first : from-1])
		if streetAdjectives[name] || len(name) > len("dieser") && strings.HasSuffix(name, "er") && !wordsInER[name] {
			return first
		}
	}
	if street := strings.ToLower(s.text[from : i-1]); !strings.HasSuffix(street, "straße") && !strings.HasSuffix(street, "strasse") && (!strings.HasSuffix(street, "str.") || len(street) < 6) {
		return -1
	}
	return from
}

// wordBefore returns the start of the word that ends at i.
func (s *scan) wordBefore(i int) int {
	from := i
	for from > 0 && i-from < maxNameWord && strings.IndexByte(" \t\r\n,;:(\"", s.text[from-1]) < 0 {
		from--
	}
	return from
}
