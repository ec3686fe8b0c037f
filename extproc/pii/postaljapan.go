package pii

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Japanese addresses begin with the largest part: a postcode, a prefecture, towns and districts, numbers. An address is found at its postcode or its prefecture, if
// a municipality and the numbers of a block follow:
//
//	〒100-0005 東京都千代田区丸の内1-9-1
//	大阪府大阪市北区梅田三丁目1番3号

// Limits of the parts, in characters.
const (
	maxJapanese  = 40 // between the beginning and the numbers
	maxBlockSize = 4  // digits
)

// japanese parses the address at the postal mark at i, or after the prefecture that ends with the character at i. It returns its end, or 0 for none.
func (s *scan) japanese(i int) int {
	const char = 3 // bytes of each of these characters
	if !s.wants(Postal) {
		return 0
	}
	from, at := i, i+char
	switch {
	case strings.HasPrefix(s.text[i:], "〒"):
		if at = s.japaneseCode(at); at == 0 {
			return 0
		}
	default:
		if from = s.prefectureBefore(at); from < 0 {
			return 0
		}
		from = s.codeBefore(from)
	}
	to := s.municipal(at)
	if to == 0 {
		return 0
	}
	return s.addPostal(from, to)
}

// prefectureBefore returns the start of the prefecture whose name ends at end; -1 for none.
func (s *scan) prefectureBefore(end int) int {
	for _, name := range prefectures {
		if strings.HasSuffix(s.text[:end], name) {
			return end - len(name)
		}
	}
	return -1
}

// japaneseCode returns the end of the postcode after the postal mark, with the space after it: 100-0005; 0 if there is none.
func (s *scan) japaneseCode(i int) int {
	if s.at(i) == ' ' {
		i++
	}
	first := s.group(i)
	if first-i != 3 || s.at(first) != '-' || s.group(first+1) != first+5 {
		return 0
	}
	return s.spaces(first + 5)
}

// spaces returns the end of the white space at i, of at most three characters.
func (s *scan) spaces(i int) int {
	for range 3 {
		r, n := utf8.DecodeRuneInString(s.text[i:])
		if r != ' ' && r != '\n' && r != '\u3000' {
			break
		}
		i += n
	}
	return i
}

// codeBefore returns the start of the postcode, with its mark, before the prefecture at i; i if there is none.
func (s *scan) codeBefore(i int) int {
	at := strings.TrimRight(s.text[max(0, i-9):i], " \n\u3000")
	end := max(0, i-9) + len(at)
	from := end - len("100-0005")
	if from < 0 || s.is(from-1, word) || s.japaneseCode(from) < end {
		return i
	}
	return len(strings.TrimSuffix(s.text[:from], "〒"))
}

// municipal parses the names of towns and districts at i, and the numbers. It returns their end, or 0 for none.
func (s *scan) municipal(i int) int {
	named, last := false, rune(0) // whether a municipality was named, and the character before
	for range maxJapanese {
		if named && last != 'の' && last != 'が' {
			if to := s.blocks(i); to > 0 {
				return to
			}
		}
		r, n := utf8.DecodeRuneInString(s.text[i:])
		switch {
		case strings.ContainsRune("市区町村郡", r):
			named = true
		case strings.ContainsRune(" \u3000", r), unicode.Is(unicode.Han, r), unicode.Is(unicode.Katakana, r), r == 'ー':
		case unicode.Is(unicode.Hiragana, r) && !strings.ContainsRune("をでへもは", r) && (!named || r != 'に'):
		default:
			return 0
		}
		i, last = i+n, r
	}
	return 0
}

// blocks parses the numbers at i: 1-9-1, 三丁目1番3号; at least two, or one with its unit. It returns their end, or 0 for none.
func (s *scan) blocks(i int) int {
	groups, units := 0, 0
	for {
		end, kanji := s.blockNumber(i)
		if end == i {
			return 0
		}
		groups++
		unit := s.blockUnit(end)
		if kanji && !strings.HasPrefix(s.text[end:], "丁目") {
			return 0 // a name such as 一番町
		}
		i = end + unit
		if unit > 0 {
			units++
		}
		r, n := utf8.DecodeRuneInString(s.text[i:])
		next := i
		if unit == 0 && strings.ContainsRune("-‐‑–−－ーの", r) {
			next += n
		}
		if after, _ := s.blockNumber(next); after > next && (unit > 0 || next > i) {
			i = next
			continue
		}
		if groups < 2 && units == 0 || strings.ContainsRune("町月年日時分人円回位度歳名件個か", r) || r == '.' && s.is(i+1, digit) || r < utf8.RuneSelf && s.is(i, word) {
			return 0
		}
		return i
	}
}

// blockNumber returns the end of the digits or kanji digits at i; i if there are none or too many.
func (s *scan) blockNumber(i int) (end int, kanji bool) {
	end = i
	for n := 0; ; n++ {
		r, size := utf8.DecodeRuneInString(s.text[end:])
		isKanji := strings.ContainsRune("一二三四五六七八九十", r)
		if (r < '0' || r > '9') && (r < '０' || r > '９') && !isKanji {
			return end, kanji
		}
		if n == maxBlockSize || n > 0 && isKanji != kanji {
			return i, false
		}
		kanji = isKanji
		end += size
	}
}

// blockUnit returns the length of the unit at i, in bytes; 0 if there is none.
func (s *scan) blockUnit(i int) int {
	for _, unit := range [...]string{"丁目", "番地", "番", "号"} {
		if strings.HasPrefix(s.text[i:], unit) {
			return len(unit)
		}
	}
	return 0
}

var prefectures = strings.Fields(`東京都 北海道 大阪府 京都府 青森県 岩手県 宮城県 秋田県 山形県 福島県 茨城県 栃木県 群馬県 埼玉県 千葉県 神奈川県 新潟県 富山県 石川県 福井県 山梨県 長野県 岐阜県 静岡県
	愛知県 三重県 滋賀県 兵庫県 奈良県 和歌山県 鳥取県 島根県 岡山県 広島県 山口県 徳島県 香川県 愛媛県 高知県 福岡県 佐賀県 長崎県 熊本県 大分県 宮崎県 鹿児島県 沖縄県`)
