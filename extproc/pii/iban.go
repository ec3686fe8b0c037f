package pii

import "strings"

// ibanLengths are the lengths of IBANs by country.
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18,
	"DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23,
	"IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
	"MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19,
	"SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}

// iban parses the IBAN at i, in one word or in groups; end is the end of its first word.
func (s *scan) iban(i, end int) {
	if !s.wants(IBAN) || end-i < 4 || !s.is(i, letter) || !s.is(i+1, letter) || !s.is(i+2, digit) || !s.is(i+3, digit) {
		return
	}
	want, ok := ibanLengths[strings.ToUpper(s.text[i:i+2])]
	if !ok {
		return
	}
	var plain [34]byte
	n, at := 0, i
	for n < want && at < len(s.text) {
		switch {
		case s.is(at, letter|digit):
			c := s.text[at]
			if classes[c]&lower != 0 {
				c -= 'a' - 'A'
			}
			plain[n] = c
			n++
			at++
		case n%4 == 0 && (s.text[at] == ' ' || s.text[at] == '-') && s.is(at+1, letter|digit):
			at++
		case n%4 == 0 && strings.HasPrefix(s.text[at:], nbsp):
			at += len(nbsp)
		default:
			return
		}
	}
	if n == want && !s.is(at, word) && mod97(plain[:n]) {
		s.add(i, at, IBAN, 1)
	}
}

// mod97 verifies an IBAN's check digits.
func mod97(b []byte) bool {
	rest := 0
	for k := range b {
		c := b[(k+4)%len(b)]
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest == 1
}
