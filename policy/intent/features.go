package intent

import (
	"unicode"
	"unicode/utf8"
)

// features describe a text in any language: the size of its instruction, its structure, and the classes of its words. Only the author's own words
// count as instruction; quoted text, code blocks, and text after a blank line are the subject of the request.
type features struct {
	size      float64 // of the instruction, in English words
	clauses   int     // of the instruction
	questions int
	items     int // lines of a list, anywhere
	maths     int // symbols
	numbers   int // of the instruction
	code      int // tokens that occur only in programs, anywhere
	fence     bool

	seen [lexiconWords]uint64 // lexicon words in the instruction
	has  [wordClasses]int     // number of different ones, by class
}

// The parts of a text that are read: its beginning, and its end, where the instruction is if something long was pasted first.
const (
	readHead = 2_048
	readTail = 768
)

// read computes the features, in one pass over the text.
func (f *features) read(text string) {
	head := text
	if len(text) > readHead+readTail {
		head = text[:readHead]
	}
	at, found := f.section(head, 0)
	f.rest(head[at:])
	if found && f.hasInstruction() || len(text) < readHead && at == len(text) {
		return
	}
	// The beginning contains no known instruction: the end may.
	tail := text[max(at, len(text)-readTail):]
	if last := lastSection(tail); last != "" {
		f.section(last, 0)
	}
}

// hasInstruction reports whether the words so far contain an instruction.
func (f *features) hasInstruction() bool {
	if f.questions > 0 {
		return true
	}
	for class := range f.has {
		if f.has[class] > 0 {
			return true
		}
	}
	return false
}

// lastSection returns the text after the last blank line.
func lastSection(s string) string {
	for i := len(s) - 2; i >= 0; i-- {
		if s[i] == '\n' && s[i+1] == '\n' {
			return s[i+2:]
		}
	}
	return ""
}

// folded is the buffer of a text in lower case; what does not fit is cut off.
type folded [readHead + 64]byte

// section reads an instruction up to a blank line or the end. end is where it stopped; some reports whether there was any text.
func (f *features) section(s string, from int) (end int, some bool) {
	var low folded
	n := 0
	quote := rune(0)
	last := rune('\n')
	at := from
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		if r == '`' && len(s) > at+2 && s[at+1] == '`' && s[at+2] == '`' {
			break
		}
		if r == '\n' && last == '\n' && f.size > 0 {
			break
		}
		if r == '\n' {
			f.line(s[at+1:])
		}
		quote = f.rune(r, last, quote, s[at+size:])
		if quote == 0 && n+utf8.UTFMax < len(low) {
			n += copy(low[n:], utf8.AppendRune(low[n:n], fold(r)))
		}
		last = r
		at += size
	}
	f.match(low[:n])
	return at, f.size > 0
}

// rest counts lists, code and formulas in the subject of the request.
func (f *features) rest(s string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\n':
			f.line(s[i+1:])
		case '`':
			if len(s) > i+2 && s[i+1] == '`' && s[i+2] == '`' {
				f.fence = true
				i += 2
			}
		case '{', '}', ';':
			f.code++
		}
	}
}

// line checks whether a line starts like a list item.
func (f *features) line(s string) {
	if len(s) < 2 {
		return
	}
	if (s[0] == '-' || s[0] == '*') && s[1] == ' ' || s[0] >= '0' && s[0] <= '9' && (s[1] == '.' || s[1] == ')') {
		f.items++
	}
}

// rune counts one rune. It returns the closing mark of the quotation that the rune is in, 0 outside of quotations.
func (f *features) rune(r, last, quote rune, rest string) rune {
	if quote != 0 {
		if r == quote {
			return 0
		}
		f.symbol(r)
		return quote
	}
	if end := closing(r); end != 0 {
		return end
	}
	if r == '"' && !unicode.IsLetter(last) && !unicode.IsDigit(last) {
		return '"'
	}
	switch {
	case r <= ' ':
	case r >= '0' && r <= '9':
		if last < '0' || last > '9' {
			f.numbers++
			f.size += numberWeight
		}
	case isClause(r):
		if !isDigit(last) || rest == "" || !isDigit(rune(rest[0])) { // not a comma within a number
			f.clauses++
		}
	case isQuestion(r):
		f.questions++
	default:
		f.size += weight(r)
		f.symbol(r)
	}
	return 0
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isClause(r rune) bool {
	switch r {
	case ',', ';', ':', '.', '!', '،', '؛', '、', '，', '；', '：', '。', '！', '।', '—', '–':
		return true
	}
	return false
}

func isQuestion(r rune) bool { return r == '?' || r == '？' || r == '؟' }

// closing returns the mark that ends a quotation, 0 if r does not start one. The mark that starts a German quotation ends an English one.
func closing(r rune) rune {
	switch r {
	case '“':
		return '”'
	case '„':
		return '“'
	case '«':
		return '»'
	case '「':
		return '」'
	case '『':
		return '』'
	case '《':
		return '》'
	}
	return 0
}

// symbol counts symbols of formulas and programs.
func (f *features) symbol(r rune) {
	switch {
	case r == '{' || r == '}' || r == ';':
		f.code++
	case r >= 0x2200 && r <= 0x22FF, r >= 0x2100 && r <= 0x214F, r >= 0x2070 && r <= 0x209F, r >= 0x1D400 && r <= 0x1D7FF,
		r == '²', r == '³', r == '¹', r == '→', r == '^', r == '\\', r == '√':
		f.maths++
	}
}

// numberWeight is the weight of a number.
const numberWeight = 1

// weight returns the usual share of a word that a rune has, relative to English words.
func weight(r rune) float64 {
	switch {
	case r < 0x0590: // Latin, Greek, Cyrillic, Armenian
		return 0.2
	case r < 0x0900: // Hebrew, Arabic: short vowels are not written
		return 0.25
	case r < 0x1100: // the scripts of India, Thai
		return 0.22
	case r >= 0x3040 && r < 0x3100: // Kana
		return 0.3
	case r >= 0x3400 && r < 0xA000: // Han
		return 0.6
	case r >= 0xAC00 && r < 0xD7B0: // Hangul
		return 0.5
	}
	return 0.2
}

// fold returns a letter in lower case, in those scripts of the lexicon that have case.
func fold(r rune) rune {
	switch {
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	case r < 0x80 || r > 0x052F:
		return r
	}
	return unicode.ToLower(r)
}
