package pii

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // phrase.txt
	"slices"
	"strings"
)

const (
	bitsPerWord = 11
	maxGap      = 8   // maximum bytes between two words of a phrase
	maxRun      = 256 // maximum words in a row; more are a word list
)

// phraseText is the English word list of BIP-39, one word per line. A test compares it with a library's, which is not used here since it parses lists of ten
// languages at start.
//
//go:embed phrase.txt
var phraseText string

// phraseWords has the numbers of the BIP-39 words.
var phraseWords = func() map[string]uint16 {
	m := make(map[string]uint16, 1<<bitsPerWord)
	for w := range strings.SplitSeq(strings.TrimSuffix(phraseText, "\n"), "\n") {
		m[w] = uint16(len(m))
	}
	return m
}()

// phraseStarts has a bit for the first three letters of each of phraseWords.
var phraseStarts = func() (bits [1 << 15 / 64]uint64) {
	for w := range phraseWords {
		n := startOf(w)
		bits[n/64] |= 1 << (n % 64)
	}
	return bits
}()

// startOf returns a number for the first three letters of a word, of either case.
func startOf(w string) uint { return uint(w[0]&31)<<10 | uint(w[1]&31)<<5 | uint(w[2]&31) }

// phraseLengths are the lengths of phrases, longest first.
var phraseLengths = [...]int{24, 21, 18, 15, 12}

// phrase is a sequence of BIP-39 words in a text.
type phrase struct {
	words []phraseMember
	end   int // end of the last word, or of a number after it
}

type phraseMember struct {
	at, end int
	n       uint16
}

// word handles the word text[i:end]. Numbers between words of a phrase are their positions, and are skipped.
func (p *phrase) word(s *scan, i, end int, has uint8) {
	if len(p.words) > 0 && !s.isListGap(p.end, i) {
		p.finish(s)
	}
	if has == digit && end-i <= 2 {
		if len(p.words) > 0 {
			p.end = end
		}
		return
	}
	n, ok := uint16(0), false
	if size := end - i; size >= 3 && size <= 8 && has&^letter == 0 {
		n, ok = phraseWord(s.text[i:end], has)
	}
	if !ok {
		p.finish(s)
		return
	}
	p.words = append(p.words, phraseMember{i, end, n})
	p.end = end
}

// phraseWord returns the number of a word of letters.
func phraseWord(w string, has uint8) (n uint16, ok bool) {
	if at := startOf(w); phraseStarts[at/64]&(1<<(at%64)) == 0 {
		return 0, false
	}
	if has&upper != 0 {
		w = strings.ToLower(w)
	}
	n, ok = phraseWords[w]
	return n, ok
}

// isListGap reports whether text[from:to] may separate words of a phrase.
func (s *scan) isListGap(from, to int) bool {
	return to-from <= maxGap && strings.Trim(s.text[from:to], " \t\r\n,.;:|/\\\"'`[]()-*") == ""
}

// finish finds phrases with a valid checksum in the collected words, and clears them.
func (p *phrase) finish(s *scan) {
	words := p.words
	p.words = words[:0]
	if len(words) < phraseLengths[len(phraseLengths)-1] || len(words) > maxRun || !s.wants(SeedPhrase) {
		return
	}
	from, to := 0, 0 // range of overlapping valid phrases: words of prose may fit by chance
	for i := 0; i+phraseLengths[len(phraseLengths)-1] <= len(words); i++ {
		n := validPhrase(words[i:])
		switch {
		case n == 0:
		case i < to:
			to = max(to, i+n)
		default:
			s.addPhrase(words[from:to])
			from, to = i, i+n
		}
	}
	s.addPhrase(words[from:to])
}

func (s *scan) addPhrase(words []phraseMember) {
	if len(words) > 0 {
		s.add(words[0].at, words[len(words)-1].end, SeedPhrase, 1)
	}
}

// validPhrase returns the length of the phrase at the start of words; 0 for none. Phrases with few different words are published examples, and words in
// alphabetical order are a part of the list.
func validPhrase(words []phraseMember) int {
	for _, n := range phraseLengths {
		if len(words) >= n && isChecked(words[:n]) && isVaried(words[:n]) {
			return n
		}
	}
	return 0
}

func isVaried(words []phraseMember) bool {
	different := map[uint16]bool{}
	for _, w := range words {
		different[w.n] = true
	}
	return len(different) > len(words)*3/4 && !slices.IsSortedFunc(words, func(a, b phraseMember) int { return cmp.Compare(a.n, b.n) })
}

// isChecked verifies the checksum: the last bits of words are the first bits of the hash of the others.
func isChecked(words []phraseMember) bool {
	var bits [(24*bitsPerWord + 7) / 8]byte
	for i, w := range words {
		for b := range bitsPerWord {
			if w.n>>(bitsPerWord-1-b)&1 == 1 {
				at := i*bitsPerWord + b
				bits[at/8] |= 0x80 >> (at % 8)
			}
		}
	}
	check := len(words) / 3 // bits
	entropy := (len(words)*bitsPerWord - check) / 8
	sum := sha256.Sum256(bits[:entropy])
	shift := 8 - check
	return sum[0]>>shift == bits[entropy]>>shift
}
