package pii

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// phoneLabels are labels before a phone number, with ASCII letters in lower case.
var phoneLabels = newLabels(
	"tel", "tel.", "telephone", "phone", "phone number", "phone no", "phone no.", "mobile", "mobile number", "cell", "cell phone", "fax", "call", "call me at", "call me on", "whatsapp",
	"telefon", "telefonnummer", "handy", "handynummer", "mobil", "mobilnummer", "rufnummer", "anrufen unter", "erreichbar unter", "tél", "tél.", "téléphone", "portable", "teléfono", "telefono", "móvil",
	"celular", "telefone", "telemóvel", "cellulare", "телефон", "Телефон", "тел", "Тел", "моб", "電話", "電話番号", "携帯", "电话", "手机", "手机号", "전화", "전화번호", "휴대폰", "telefoon", "puhelin", "tlf",
)

// maxGroups is the maximum number of groups of digits of a phone number.
const maxGroups = 8

// phoneCandidate is a candidate of a phone number: groups of digits with separators.
type phoneCandidate struct {
	digits [maxDialled]byte
	ends   [maxGroups]int // end of each group in the text
	sizes  [maxGroups]int // number of digits up to the end of each group
	groups int
	label  labelState
}

// maxDialled is the maximum number of digits of a phone number.
const maxDialled = 15

// labelState caches whether a phone label is before a number.
type labelState uint8

const (
	labelUnknown labelState = iota
	withoutLabel
	withLabel
)

// phone parses the phone number at i: a plus, an opening bracket or a digit. It returns its end, or 0 for none.
func (s *scan) phone(i int) int {
	if !s.wants(Phone) || s.is(i-1, word) || s.at(i-1) == '+' {
		return 0
	}
	var d phoneCandidate
	s.digitGroups(i, &d)
	for k := d.groups - 1; k >= 0 && d.sizes[k] >= 7; k-- {
		if s.is(d.ends[k], word) {
			continue
		}
		if confidence := s.phoneConfidence(i, d.ends[k], d.digits[:d.sizes[k]], &d.label); confidence > 0 {
			s.add(i, d.ends[k], Phone, confidence)
			return d.ends[k]
		}
	}
	return 0
}

// digitGroups parses groups of digits with separators.
func (s *scan) digitGroups(i int, d *phoneCandidate) {
	at, n := i, 0
	if s.text[at] == '+' {
		at++
	}
	for d.groups < maxGroups {
		next := s.skipSeparators(at, d.groups == 0)
		end := s.group(next)
		if end == next || n+end-next > maxDialled {
			return
		}
		n += copy(d.digits[n:], s.text[next:end])
		at = end
		if s.at(at) == ')' {
			at++
		}
		d.ends[d.groups], d.sizes[d.groups] = at, n
		d.groups++
	}
}

// skipSeparators skips separators between the groups of a phone number.
func (s *scan) skipSeparators(i int, first bool) int {
	for from := i; i-from < 3 && i < len(s.text); {
		switch s.text[i] {
		case '-', '.', '/':
			if first {
				return i
			}
			i++
		case ' ', '(':
			i++
		case nbsp[0]:
			if !strings.HasPrefix(s.text[i:], nbsp) {
				return i
			}
			i += len(nbsp)
		default:
			return i
		}
	}
	return i
}

// phoneConfidence returns the confidence that the digits of text[i:end] are a phone number; 0 if they are none.
func (s *scan) phoneConfidence(i, end int, number []byte, label *labelState) float32 {
	shown := s.text[i:end]
	switch {
	case s.text[i] == '+':
		if isInternational(number) {
			return 1
		}
		return 0
	case isDate(shown):
		return 0
	case isNorthAmerican(shown, number):
		return 0.9
	}
	if *label == labelUnknown {
		*label = withoutLabel
		if s.labelled(i, 10, phoneLabels) {
			*label = withLabel
		}
	}
	labelled := *label == withLabel
	if number[0] == '0' && number[1] == '0' && (labelled || strings.ContainsAny(shown, " -/")) && isInternational(number[2:]) {
		return 0.9
	}
	if (shown[0] == '(' || shown[0] == '0' || labelled) && s.isOfRegion(number) {
		return 0.9
	}
	if shown[0] == '0' && s.isJapanese(i, end) && isOf("JP", number) {
		return 0.9
	}
	if labelled && len(number) <= 13 {
		return 0.5
	}
	return 0
}

// isJapanese reports whether text[i:end], with hyphens, has the groups of a Japanese mobile number, or follows Japanese text.
func (s *scan) isJapanese(i, end int) bool {
	shown := s.text[i:end]
	if s.at(end) == '-' && s.is(end+1, word) {
		return false
	}
	if len(shown) == len("090-1234-5678") && shown[3] == '-' && shown[8] == '-' {
		if area := shown[:3]; area == "070" || area == "080" || area == "090" {
			return true
		}
	}
	if !strings.Contains(shown, "-") {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s.text[max(0, i-12):i], " :：（(\u3000"))
	return unicode.In(before, unicode.Hiragana, unicode.Katakana, unicode.Han)
}

// isOfRegion reports whether digits are a valid number of one of the configured regions, as dialled there.
func (s *scan) isOfRegion(number []byte) bool {
	return slices.ContainsFunc(s.Regions, func(region string) bool { return isOf(region, number) })
}

// isOf reports whether digits are a valid number of a region, as dialled there.
func isOf(name string, number []byte) bool {
	r := regionOf(name)
	if r == nil {
		return false
	}
	valid, known := r.dialled(number)
	return valid || !known && r.parses(bytes.Clone(number)) // regexp makes its argument escape
}

// isInternational reports whether digits are a valid number with its country code.
func isInternational(number []byte) bool {
	if len(number) < 7 || number[0] == '0' {
		return false
	}
	code := 0
	for n := 1; n <= 3; n++ {
		code = code*10 + int(number[n-1]-'0')
		p := planOf(code)
		if len(p.regions) == 0 {
			continue
		}
		rest := number[n:]
		return p.valid(rest) || rest[0] == '0' && p.valid(rest[1:]) // +49 (0)30 …
	}
	return false
}

// isNorthAmerican reports whether digits are a valid number of the North American plan, in its groups: (415) 555-0132, 1-415-555-0132.
func isNorthAmerican(shown string, number []byte) bool {
	if len(number) == 11 && number[0] == '1' && len(shown) > 1 && !isDigitAt(shown, 1) {
		shown, number = strings.TrimLeft(shown[1:], " -."), number[1:]
	}
	if len(number) != 10 {
		return false
	}
	sizes, n := uint64(0), uint64(0) // the sizes of groups, as decimal digits
	for i := range len(shown) {
		switch {
		case isDigitAt(shown, i):
			n++
		case n > 0:
			sizes, n = sizes*10+n, 0
		}
	}
	if n > 0 {
		sizes = sizes*10 + n
	}
	return sizes == 334 && planOf(1).valid(number)
}

func isDigitAt(s string, i int) bool { return s[i] >= '0' && s[i] <= '9' }

// isDate reports whether a text has the format of a date: 2024-01-15, 15.01.2024.
func isDate(shown string) bool {
	if len(shown) < len("1.1.2024") || !strings.ContainsAny(shown[:5], "-./") { // the first part has up to four digits
		return false
	}
	parts := strings.FieldsFunc(shown, func(r rune) bool { return r == '-' || r == '.' || r == '/' })
	if len(parts) < 3 || strings.Contains(parts[0], " ") {
		return false
	}
	year := func(s string) bool { return len(s) >= 4 && (strings.HasPrefix(s, "19") || strings.HasPrefix(s, "20")) }
	return year(parts[0]) && len(parts[0]) == 4 && len(parts[1]) <= 2 || len(parts[0]) <= 2 && len(parts[1]) <= 2 && year(parts[2])
}
