package pii

import "strings"

// Phone numbers and cards in full-width digits, as typed on East Asian keyboards (０９０－１２３４－５６７８), are found in a copy of the text in which full-width digits,
// marks and spaces are ASCII.

// wideNumbers appends such values of a text, and may repeat values that were found already.
func (d Detectors) wideNumbers(text string, masks typeSet, out []Span) []Span {
	if masks &= bitOf(Card) | bitOf(Phone); masks == 0 || !hasWide(text) {
		return out
	}
	s := scan{Detectors: d, text: narrow(text), want: masks}
	s.run()
	at, narrowed := 0, 0 // the same position in both texts
	place := func(to int) int {
		for ; narrowed < to; narrowed++ {
			_, n := narrowAt(text, at)
			at += n
		}
		return at
	}
	for _, v := range s.out {
		v.Start, v.End = place(v.Start), place(v.End)
		out = append(out, v)
	}
	return out
}

// hasWide reports whether a text has a full-width digit.
func hasWide(text string) bool {
	for {
		i := strings.Index(text, "\xef\xbc")
		if i < 0 {
			return false
		}
		if isWideDigit(text[i:]) {
			return true
		}
		text = text[i+2:]
	}
}

// isWideDigit reports whether a text begins with a full-width digit.
func isWideDigit(text string) bool {
	return len(text) > 2 && text[:2] == "\xef\xbc" && text[2] >= 0x90 && text[2] <= 0x99
}

func narrow(text string) string {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		c, n := narrowAt(text, i)
		b = append(b, c)
		i += n
	}
	return string(b)
}

// narrowAt returns the ASCII byte for the n bytes of a full-width character at i, or the byte at i.
func narrowAt(text string, i int) (c byte, n int) {
	const size = 3
	if text[i] < 0xe2 || i+size > len(text) {
		return text[i], 1
	}
	switch mark := text[i : i+size]; {
	case mark[:2] == "\xef\xbc" && mark[2] >= 0x81 && mark[2] <= 0x9f: // ！ to ？, with the digits
		return mark[2] - 0x81 + '!', size
	case mark == "\u3000":
		return ' ', size
	case (mark == "‐" || mark == "−" || mark == "ー") && i >= size && isWideDigit(text[i-size:]) && isWideDigit(text[i+size:]):
		return '-', size
	}
	return text[i], 1
}
