package pii

import (
	"net/netip"
	"slices"
	"strings"
)

// number parses the values that may begin with the digit at i; end is the end of its word. It returns the end of the value, or 0 for none.
func (s *scan) number(i, end int, has uint8) int {
	if c := s.at(i - 1); (c == '.' || c == ',') && s.is(i-2, digit) {
		return 0 // after a decimal point
	}
	if s.wants(IP) {
		if to := s.address(i); to > 0 {
			s.add(i, to, IP, 1)
			return to
		}
	}
	if has != digit {
		return 0
	}
	if s.at(i-1) == '-' && s.is(i-2, word) {
		return 0 // within an identifier
	}
	if to := s.card(i, end); to > 0 {
		s.add(i, to, Card, 1)
		return to
	}
	if to, confidence := s.ssn(i, end); to > 0 {
		s.add(i, to, SSN, confidence)
		return to
	}
	if s.at(i-1) == '(' || s.at(i-1) == '+' {
		return 0 // parsed there already
	}
	return s.phone(i)
}

// group returns the end of the digits at i.
func (s *scan) group(i int) (end int) {
	for end = i; s.is(end, digit); end++ {
	}
	return end
}

// brands are the brands of cards: ranges of the first digits, and lengths.
var brands = []struct {
	digits, low, high int
	lengths           []int
}{
	{1, 4, 4, []int{13, 16, 19}},       // Visa
	{2, 51, 55, []int{16}},             // Mastercard
	{4, 2221, 2720, []int{16}},         // Mastercard
	{2, 34, 34, []int{15}},             // American Express
	{2, 37, 37, []int{15}},             // American Express
	{4, 6011, 6011, []int{16, 19}},     // Discover
	{3, 644, 649, []int{16, 19}},       // Discover
	{2, 65, 65, []int{16, 19}},         // Discover
	{3, 300, 305, []int{14}},           // Diners Club
	{2, 36, 36, []int{14}},             // Diners Club
	{2, 38, 39, []int{14, 16}},         // Diners Club
	{4, 3528, 3589, []int{16}},         // JCB
	{2, 62, 62, []int{16, 17, 18, 19}}, // UnionPay
	{4, 2200, 2204, []int{16}},         // Mir
	{2, 50, 50, []int{16}},             // Maestro
	{2, 56, 58, []int{16}},             // Maestro
	{4, 6304, 6304, []int{16, 18, 19}}, // Maestro
	{4, 6759, 6759, []int{16, 18, 19}}, // Maestro
	{4, 6761, 6763, []int{16, 18, 19}}, // Maestro
	{4, 9792, 9792, []int{16}},         // Troy
	{6, 508500, 508999, []int{16}},     // RuPay
	{4, 6521, 6522, []int{16}},         // RuPay
	{6, 401178, 401179, []int{16}},     // Elo
}

// layouts are the groups in which cards are printed.
var layouts = [][]int{{4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}, {4, 4, 4, 4, 3}}

// card parses the card number at i, in one word or in groups. It returns its end, or 0 for none.
func (s *scan) card(i, end int) int {
	if !s.wants(Card) {
		return 0
	}
	if end-i >= 13 {
		if s.at(end) == '.' && s.is(end+1, digit) || s.at(end) == '-' && s.is(end+1, word) || !isCard(s.text[i:end]) {
			return 0
		}
		return end
	}
	sep := s.at(end)
	if end-i != 4 || sep != ' ' && sep != '-' && sep != '.' && !strings.HasPrefix(s.text[end:], nbsp) {
		return 0
	}
	for _, layout := range layouts {
		if to := s.grouped(i, layout); to > 0 {
			return to
		}
	}
	return 0
}

const nbsp = "\u00a0"

// grouped parses a card number in groups with the same separator between them.
func (s *scan) grouped(i int, layout []int) int {
	var digits [19]byte
	n, at := 0, i
	sep := s.text[i+4 : i+5]
	if strings.HasPrefix(s.text[i+4:], nbsp) {
		sep = nbsp
	}
	for k, size := range layout {
		if k > 0 {
			if !strings.HasPrefix(s.text[at:], sep) {
				return 0
			}
			at += len(sep)
		}
		end := s.group(at)
		if end-at != size || s.is(end, word) {
			return 0
		}
		n += copy(digits[n:], s.text[at:end])
		at = end
	}
	if !isCard(string(digits[:n])) || s.at(at) == sep[0] && sep != " " && s.is(at+1, digit) {
		return 0
	}
	return at
}

// isCard reports whether digits are a card number: a known prefix, its length, and the check digit.
func isCard(digits string) bool {
	if len(digits) > 19 || !luhn(digits) {
		return false
	}
	for _, b := range brands {
		first := 0
		for _, c := range digits[:b.digits] {
			first = first*10 + int(c-'0')
		}
		if first >= b.low && first <= b.high && slices.Contains(b.lengths, len(digits)) {
			return strings.Count(digits, digits[:1]) < len(digits)
		}
	}
	return false
}

// luhn verifies the check digit.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

var ssnLabels = newLabels("ssn", "social security", "social security number", "social security no", "soc sec", "ssn#", "ssn is", "taxpayer id", "itin")

// ssn parses the US social security number at i: 078-05-1120, or after a label also with spaces or in one word.
func (s *scan) ssn(i, end int) (to int, confidence float32) {
	if !s.wants(SSN) || end-i != 3 && end-i != 9 {
		return 0, 0
	}
	digits := s.text[i:end]
	if end-i == 3 {
		sep := s.at(end)
		if sep != '-' && sep != ' ' || s.group(end+1) != end+3 || s.at(end+3) != sep || s.group(end+4) != end+8 || s.is(end+8, word) {
			return 0, 0
		}
		if sep == '-' && s.at(end+8) == '-' && s.is(end+9, word) {
			return 0, 0
		}
		digits, to, confidence = s.text[i:end]+s.text[end+1:end+3]+s.text[end+4:end+8], end+8, 0.9
		if sep == ' ' && !s.labelled(i, 12, ssnLabels) {
			return 0, 0
		}
	} else {
		to, confidence = end, 0.7
		if !s.labelled(i, 12, ssnLabels) {
			return 0, 0
		}
	}
	if digits[:3] == "000" || digits[:3] == "666" || digits[0] == '9' || digits[3:5] == "00" || digits[5:] == "0000" {
		return 0, 0
	}
	return to, confidence
}

var versionLabels = newLabels("version", "ver", "v", "release", "build", "rev", "firmware", "driver", "versión", "версия", "sdk", "assembly", "kernel", "chrome", "upgrade to", "update to")

// resolvers are well-known public addresses, which are no personal data.
var resolvers = []string{"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "1.2.3.4", "2001:4860:4860::8888", "2606:4700:4700::1111"}

// address parses the public IP address at i. It returns its end, or 0 for none.
func (s *scan) address(i int) int {
	end := i
	dots, colons := 0, 0
	for ; end < len(s.text) && end-i < 46; end++ {
		c := s.text[end]
		switch {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case !isHex(c):
			goto done
		}
		if dots == 0 && colons == 0 && end-i > 4 {
			return 0
		}
	}
done:
	for end > i && (s.text[end-1] == '.' || s.text[end-1] == ':') {
		end--
	}
	if colons >= 2 {
		return s.address6(i, end)
	}
	if dots < 3 {
		return 0
	}
	return s.address4(i)
}

// address4 parses the IPv4 address at i.
func (s *scan) address4(i int) int {
	end := i
	for k := range 4 {
		if k > 0 {
			if s.at(end) != '.' {
				return 0
			}
			end++
		}
		to := s.group(end)
		if to == end || to-end > 3 {
			return 0
		}
		end = to
	}
	if s.is(end, word) || s.at(end) == '.' && s.is(end+1, word) || s.at(end) == '-' && s.is(end+1, letter) {
		return 0
	}
	a, err := netip.ParseAddr(s.text[i:end])
	if err != nil || !isPublic(a) || strings.HasSuffix(s.text[i:end], ".0.0.0") || slices.Contains(resolvers, s.text[i:end]) {
		return 0
	}
	if c := s.at(i - 1); c == '/' && s.is(i-2, letter) || c == '-' && s.is(i-2, word) || c == '^' || c == '~' ||
		s.isCompared(i) || s.labelled(i, 2, versionLabels) {
		return 0
	}
	return end
}

// isCompared reports whether a comparison operator for versions is before i: >= 1.2.3.4.
func (s *scan) isCompared(i int) bool {
	before := strings.TrimRight(s.text[max(0, i-3):i], " ")
	return strings.HasSuffix(before, ">") || strings.HasSuffix(before, "<") || len(before) > 1 && before[len(before)-1] == '=' && strings.IndexByte("<>=!~", before[len(before)-2]) >= 0
}

// address6 checks the IPv6 address text[i:end].
func (s *scan) address6(i, end int) int {
	a, err := netip.ParseAddr(s.text[i:end])
	if err != nil || s.is(end, word) || !isPublic(a) || s.at(i-1) == ':' || slices.Contains(resolvers, s.text[i:end]) {
		return 0
	}
	if b := a.As16(); b[0]&0xe0 != 0x20 { // 2000::/3 is all that is routed
		return 0
	}
	return end
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// isPublic reports whether an address is routed on the Internet.
func isPublic(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	if a.Is4() {
		b := a.As4()
		return b[0] != 0 && b[0] < 240 && (b[0] != 100 || b[1]&0xc0 != 64) // this network, reserved, shared
	}
	return true
}
