package injection

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// clean returns a text as a reader sees it: with normal letters for compatibility forms, without invisible characters, and with Latin letters for look-alikes in
// words that have Latin letters.
func clean(text string) string {
	if isASCII(text) {
		return text
	}
	text = norm.NFKC.String(text)
	text = strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return -1
		}
		return r
	}, text)
	return latinize(text)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isInvisible reports whether a character has no width: joiners, marks of direction, variation selectors, tags.
func isInvisible(r rune) bool {
	return r == '\u00AD' || r == '\u034F' || r == '\u115F' || r == '\u1160' || r == '\u3164' || unicode.Is(unicode.Cf, r) || isSelector(r)
}

func isSelector(r rune) bool { return r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF }

// minInvisible is the minimum number of invisible characters of a text: flags of regions have six.
const minInvisible = 8

// invisible returns the text that is encoded in tag characters, or in variation selectors, one per byte; "" for none.
func invisible(text string) string {
	if isASCII(text) {
		return ""
	}
	var tags, selectors []byte
	for _, r := range text {
		switch {
		case r >= 0xE0020 && r <= 0xE007E:
			tags = append(tags, byte(r-0xE0000))
		case r >= 0xE0100 && r <= 0xE01EF:
			selectors = append(selectors, byte(r-0xE0100+16))
		}
	}
	for _, b := range [...][]byte{tags, selectors} {
		if len(b) >= minInvisible && isText(b) {
			return string(b)
		}
	}
	return ""
}

// lookalikes are letters of other alphabets that look like Latin ones.
var lookalikes = func() map[rune]rune {
	out := map[rune]rune{}
	for _, pair := range [...][2]string{
		{"аеорсухіјѕԁһӏѵԛԝкмтнвԍ", "aeopcyxijsdhlvqwkmthbg"}, // Cyrillic
		{"АЕОРСУХІЈЅКМТНВԌ", "AEOPCYXIJSKMTHBG"},
		{"οανρτικυεωγχϲϳ", "oavptikuewyxcj"}, // Greek
		{"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"},
		{"օոսհցզ", "onuhgq"},                           // Armenian
		{"ɡıɩɪʀɢʟɴᴀᴄᴇᴏᴘѕᴛᴜᴠᴡᴢ", "giiirglnaceopstuvwz"}, // small capitals and dotless letters
	} {
		from, to := []rune(pair[0]), []rune(pair[1])
		for i, r := range from {
			if i < len(to) {
				out[r] = to[i]
			}
		}
	}
	return out
}()

// latinize replaces look-alikes in words that also have Latin letters.
func latinize(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		n := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
		if n < 0 {
			n = len(text)
		}
		out.WriteString(latinWord(text[:n]))
		_, next := utf8.DecodeRuneInString(text[n:])
		out.WriteString(text[n : n+next])
		text = text[n+next:]
	}
	return out.String()
}

func latinWord(word string) string {
	latin, alike := false, false
	for _, r := range word {
		_, is := lookalikes[r]
		alike = alike || is
		latin = latin || r < utf8.RuneSelf
	}
	if !latin || !alike {
		return word
	}
	return strings.Map(func(r rune) rune {
		if to, ok := lookalikes[r]; ok {
			return to
		}
		return r
	}, word)
}

// fold returns a text in the form of the patterns: lower case, single spaces, Latin letters without marks.
func fold(text string) string {
	if isASCII(text) {
		return foldASCII(text)
	}
	text = norm.NFC.String(unmarked(norm.NFKD.String(text)))
	return strings.Join(strings.Fields(strings.ToLower(text)), " ")
}

// foldASCII is fold for a text of ASCII.
func foldASCII(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	space := false
	for i := range len(text) {
		c := text[i]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			space = out.Len() > 0
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		if space {
			out.WriteByte(' ')
			space = false
		}
		out.WriteByte(c)
	}
	return out.String()
}

// unmarked removes the marks of Latin letters and of spaces from a decomposed text.
func unmarked(text string) string {
	latin := false
	return strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36F {
			if latin {
				return -1
			}
			return r
		}
		latin = r == ' ' || unicode.Is(unicode.Latin, r)
		return r
	}, text)
}

// minSpelled is the minimum number of single letters in a row of a spelled text: i g n o r e.
const minSpelled = 8

// spelled returns the spelled parts of a text, as words where they are separated by more space; "" for none.
func spelled(text string) string {
	if !maySpell(text) {
		return ""
	}
	var out, run strings.Builder
	letters := 0
	end := func() {
		if letters >= minSpelled {
			out.WriteString(strings.TrimSpace(run.String()))
			out.WriteByte('\n')
		}
		run.Reset()
		letters = 0
	}
	for word := range strings.SplitSeq(separators.Replace(text), " ") {
		switch utf8.RuneCountInString(word) {
		case 0:
			run.WriteByte(' ')
		case 1:
			run.WriteString(word)
			letters++
		default:
			end()
		}
	}
	end()
	return strings.TrimSpace(out.String())
}

// maySpell reports whether a text may have minSpelled single letters in a row; false is certain.
func maySpell(text string) bool {
	row, word := 0, 0 // letters so far
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case separates[c], c == "·"[0] && strings.HasPrefix(text[i:], "·"):
			if word > 1 {
				row = 0
			}
			if word = 0; c >= utf8.RuneSelf {
				i++
			}
		case c&0xC0 != 0x80 || word == 0: // no further byte of a letter
			if word++; word == 1 {
				row++
			}
			if row > minSpelled { // the last of them may be the beginning of a word
				return true
			}
		}
	}
	return row >= minSpelled && word <= 1
}

// separates has the ASCII separators between single letters.
var separates = func() (t [256]bool) {
	for _, c := range []byte("\n\t.-_*|/~+ ") {
		t[c] = true
	}
	return t
}()

// separators replaces the separators between single letters.
var separators = strings.NewReplacer("\n", "  ", "\t", " ", ".", " ", "-", " ", "_", " ", "*", " ", "|", " ", "/", " ", "~", " ", "·", " ", "+", " ")

var leet = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// unleet replaces digits and signs in words by letters: 1gn0re, d!sregard. It returns false for a text without such words.
func unleet(text string) (string, bool) {
	if !mayBeLeet(text) {
		return "", false
	}
	changed := false
	words := strings.Fields(text)
	for i, w := range words {
		if core := leetCore(w); mixes(core) {
			words[i], changed = leet.Replace(core), true
		}
	}
	if !changed {
		return "", false
	}
	return strings.Join(words, " "), true
}

// leetDigits replace letters in words. leetMarks stand around words, and are no part of them; a "!" before a letter is a digit.
const (
	leetDigits = "013457@$!"
	leetMarks  = `.,;:?"'()`
)

// leetCore returns a word without the marks around it.
func leetCore(word string) string {
	return strings.TrimRight(strings.Trim(word, leetMarks), leetMarks+"!")
}

// mayBeLeet reports whether a text may have words with digits among letters; false is certain.
func mayBeLeet(text string) bool {
	for w := range strings.SplitSeq(text, " ") {
		has := uint8(0)
		for i := range len(w) {
			has |= leetChars[w[i]]
			if w[i] == '!' && i+1 < len(w) && leetChars[w[i+1]] != 0 {
				has |= leetDigit
			}
		}
		if has == leetLetter|leetDigit {
			return true
		}
	}
	return false
}

const (
	leetLetter = 1 << iota
	leetDigit
	leetOther // words with it are not leet
)

// leetChars are the kinds of bytes; those around a word have none.
var leetChars = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z':
			t[c] = leetLetter
		case c == '!': // mayBeLeet looks at what follows
		case strings.IndexByte(leetDigits, byte(c)) >= 0:
			t[c] = leetDigit
		case strings.IndexByte(leetMarks, byte(c)) < 0:
			t[c] = leetOther
		}
	}
	return t
}()

// mixes reports whether a word has digits among lower-case letters and nothing else, at most as many as letters.
func mixes(word string) bool {
	letters, digits := 0, 0
	for _, r := range word {
		switch {
		case r >= 'a' && r <= 'z':
			letters++
		case strings.ContainsRune(leetDigits, r):
			digits++
		default:
			return false
		}
	}
	return digits > 0 && letters >= digits && len(word) <= 20
}

// rot13 decodes a text in ROT13, if it has words that are frequent in instructions.
func rot13(text string) (string, bool) {
	if !strings.Contains(text, "vafgehpgvba") && !strings.Contains(text, "vtaber") && !strings.Contains(text, "flfgrz cebzcg") {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return 'a' + (r-'a'+13)%26
		}
		return r
	}, text), true
}

// reverse reverses a text, if it has words that are frequent in instructions.
func reverse(text string) (string, bool) {
	if !strings.Contains(text, "noitcurtsni") && !strings.Contains(text, "snoitcurtsni") && !strings.Contains(text, "tpmorp metsys") {
		return "", false
	}
	runes := []rune(text)
	for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
		runes[i], runes[j] = runes[j], runes[i]
	}
	return string(runes), true
}
