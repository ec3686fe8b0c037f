package pii

import (
	"slices"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// phoneLabels are words before a phone number, in lower case as far as they are ASCII.
var phoneLabels = []string{
	"tel", "tel.", "telephone", "phone", "phone number", "phone no", "phone no.", "mobile", "mobile number", "cell", "cell phone", "fax", "call", "call me at", "call me on", "whatsapp",
	"telefon", "telefonnummer", "handy", "handynummer", "mobil", "mobilnummer", "rufnummer", "anrufen unter", "erreichbar unter", "tél", "tél.", "téléphone", "portable", "teléfono", "telefono", "móvil",
	"celular", "telefone", "telemóvel", "cellulare", "телефон", "Телефон", "тел", "Тел", "моб", "電話", "電話番号", "携帯", "电话", "手机", "手机号", "전화", "전화번호", "휴대폰", "telefoon", "puhelin", "tlf",
}

// maxGroups is how many groups of digits a phone number is read from.
const maxGroups = 8

// phone reads the phone number at i: a plus, an opening bracket or a digit. It returns where it ends, and 0 for none.
func (s *scan) phone(i int) int {
	if !s.wants(Phone) || s.is(i-1, word) || s.at(i-1) == '+' {
		return 0
	}
	ends, digits := s.dialled(i)
	if len(ends) == 0 {
		return 0
	}
	for k, end := range slices.Backward(ends) {
		if s.is(end, word) || len(digits[k]) < 7 {
			continue
		}
		if confidence := s.dials(i, end, digits[k]); confidence > 0 {
			s.add(i, end, Phone, confidence)
			return end
		}
	}
	return 0
}

// dialled reads groups of digits with separators. It returns where the groups end, and all digits up to there.
func (s *scan) dialled(i int) (ends []int, digits []string) {
	const most = 15
	all := make([]byte, 0, most)
	at := i
	if s.text[at] == '+' {
		at++
	}
	for len(ends) < maxGroups {
		next := s.separated(at, len(ends) == 0)
		end := s.group(next)
		if end == next || len(all)+end-next > most {
			break
		}
		all = append(all, s.text[next:end]...)
		at = end
		if s.at(at) == ')' {
			at++
		}
		ends, digits = append(ends, at), append(digits, string(all))
	}
	return ends, digits
}

// separated skips what may stand between the groups of a phone number.
func (s *scan) separated(i int, first bool) int {
	from := i
	for i-from < 3 {
		switch {
		case strings.IndexByte("-./", s.at(i)) >= 0 && s.at(i) != 0:
			if first {
				return i
			}
			i++
		case s.at(i) == ' ', s.at(i) == '(':
			i++
		case strings.HasPrefix(s.text[min(i, len(s.text)):], nbsp):
			i += len(nbsp)
		default:
			return i
		}
	}
	return i
}

// dials reports how certain it is that the digits of text[i:end] are a phone number; 0 if they are none.
func (s *scan) dials(i, end int, digits string) float32 {
	shown := s.text[i:end]
	switch {
	case s.text[i] == '+':
		if isInternational(digits) {
			return 1
		}
		return 0
	case isDate(shown):
		return 0
	case isNorthAmerican(shown, digits):
		return 0.9
	}
	labelled := s.labelled(i, 10, phoneLabels)
	if strings.HasPrefix(digits, "00") && isInternational(digits[2:]) && (labelled || strings.ContainsAny(shown, " -/")) {
		return 0.9
	}
	if shown[0] == '(' || shown[0] == '0' || labelled {
		for _, region := range s.Regions {
			if n, err := phonenumbers.Parse(digits, region); err == nil && phonenumbers.IsValidNumberForRegion(n, region) {
				return 0.9
			}
		}
	}
	if labelled && len(digits) <= 13 {
		return 0.5
	}
	return 0
}

// isInternational reports whether digits are a valid number behind their country code.
func isInternational(digits string) bool {
	if len(digits) < 7 || digits[0] == '0' {
		return false
	}
	code := 0
	for n := 1; n <= 3; n++ {
		code = code*10 + int(digits[n-1]-'0')
		if phonenumbers.GetRegionCodeForCountryCode(code) == phonenumbers.UNKNOWN_REGION {
			continue
		}
		rest := digits[n:]
		return isNational(code, rest) || rest[0] == '0' && isNational(code, rest[1:]) // +49 (0)30 …
	}
	return false
}

// isNational reports whether digits are a valid number of a country.
func isNational(code int, digits string) bool {
	if digits == "" {
		return false
	}
	number, zeros := uint64(0), 0
	for i, c := range digits {
		if number == 0 && c == '0' && i == zeros {
			zeros++
		}
		number = number*10 + uint64(c-'0') //nolint:gosec // a digit
	}
	n := &phonenumbers.PhoneNumber{CountryCode: new(int32(code)), NationalNumber: &number} //nolint:gosec // at most three digits
	if zeros > 0 {
		n.ItalianLeadingZero = new(true)
		if zeros > 1 {
			n.NumberOfLeadingZeros = new(int32(zeros))
		}
	}
	return phonenumbers.IsValidNumber(n)
}

// isNorthAmerican reports whether digits are a valid number of the North American plan, written in its groups: (415) 555-0132, 1-415-555-0132.
func isNorthAmerican(shown, digits string) bool {
	if len(digits) == 11 && digits[0] == '1' && len(shown) > 1 && !isDigitAt(shown, 1) {
		shown, digits = strings.TrimLeft(shown[1:], " -."), digits[1:]
	}
	if len(digits) != 10 {
		return false
	}
	var sizes []int
	n := 0
	for i := range shown {
		switch {
		case isDigitAt(shown, i):
			n++
		case n > 0:
			sizes, n = append(sizes, n), 0
		}
	}
	if n > 0 {
		sizes = append(sizes, n)
	}
	return slices.Equal(sizes, []int{3, 3, 4}) && isNational(1, digits)
}

func isDigitAt(s string, i int) bool { return s[i] >= '0' && s[i] <= '9' }

// isDate reports whether a text is written as a date or a time: 2024-01-15, 15.01.2024.
func isDate(shown string) bool {
	parts := strings.FieldsFunc(shown, func(r rune) bool { return r == '-' || r == '.' || r == '/' })
	if len(parts) < 3 || strings.Contains(parts[0], " ") {
		return false
	}
	year := func(s string) bool { return len(s) >= 4 && (strings.HasPrefix(s, "19") || strings.HasPrefix(s, "20")) }
	return year(parts[0]) && len(parts[0]) == 4 && len(parts[1]) <= 2 || len(parts[0]) <= 2 && len(parts[1]) <= 2 && year(parts[2])
}
