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
	maxGap      = 8   // bytes between two words of a phrase
	maxRun      = 256 // words that follow each other; more are a list of words
)

// phraseText is the English list of BIP-39, a word on each line. A test compares it with a library's, which has lists of nine other languages, and takes them apart when a program
// starts.
//
//go:embed phrase.txt
var phraseText string

// phraseWords are the words of BIP-39 with their numbers.
var phraseWords = func() map[string]uint16 {
	m := make(map[string]uint16, 1<<bitsPerWord)
	for w := range strings.SplitSeq(strings.TrimSuffix(phraseText, "\n"), "\n") {
		m[w] = uint16(len(m))
	}
	return m
}()

// phraseStarts are the first three letters of phraseWords, in lower case, as bits.
var phraseStarts = func() (bits [1 << 15 / 64]uint64) {
	for w := range phraseWords {
		n := startOf(w)
		bits[n/64] |= 1 << (n % 64)
	}
	return bits
}()

// startOf is a number for the first three letters of a word, of either case.
func startOf(w string) uint { return uint(w[0]&31)<<10 | uint(w[1]&31)<<5 | uint(w[2]&31) }

// phraseLengths are the lengths of phrases, longest first.
var phraseLengths = [...]int{24, 21, 18, 15, 12}

// phrase are the words of BIP-39 that follow each other in a text.
type phrase struct {
	words []placed
	end   int // of the last word, or of a number that follows it
}

type placed struct {
	at, end int
	n       uint16
}

// word takes the word text[i:end]. Numbers between the words of a phrase are their positions in it.
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
	p.words = append(p.words, placed{i, end, n})
	p.end = end
}

// phraseWord is the number of a word of letters.
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

// isListGap reports whether text[from:to] may stand between the words of a phrase.
func (s *scan) isListGap(from, to int) bool {
	return to-from <= maxGap && strings.Trim(s.text[from:to], " \t\r\n,.;:|/\\\"'`[]()-*") == ""
}

// finish looks for a phrase with a valid checksum in the words so far, and forgets them.
func (p *phrase) finish(s *scan) {
	words := p.words
	p.words = words[:0]
	if len(words) < phraseLengths[len(phraseLengths)-1] || len(words) > maxRun || !s.wants(SeedPhrase) {
		return
	}
	from, to := 0, 0 // words of valid phrases, which overlap where words of prose fit by chance
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

func (s *scan) addPhrase(words []placed) {
	if len(words) > 0 {
		s.add(words[0].at, words[len(words)-1].end, SeedPhrase, 1)
	}
}

// validPhrase is how many of the first words are a phrase; 0 for none. Phrases of few different words are published examples, and words in alphabetical order
// are from the list.
func validPhrase(words []placed) int {
	for _, n := range phraseLengths {
		if len(words) >= n && isChecked(words[:n]) && isVaried(words[:n]) {
			return n
		}
	}
	return 0
}

func isVaried(words []placed) bool {
	different := map[uint16]bool{}
	for _, w := range words {
		different[w.n] = true
	}
	return len(different) > len(words)*3/4 && !slices.IsSortedFunc(words, func(a, b placed) int { return cmp.Compare(a.n, b.n) })
}

// isChecked reports whether the last bits of words are the first of the hash of those before.
func isChecked(words []placed) bool {
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
