package injection

import "strings"

// wordSet finds which of many words are in a text, in one pass over it. Each word belongs to owners, by their indexes.
type wordSet struct {
	starts [1 << startBits / 64]uint64 // hashes of the words' first bytes
	heads  [1 << startBits]uint16      // of lists of words, plus one
	words  []setWord
	short  []setWord // those that have no startBytes bytes
}

type setWord struct {
	text   string
	owners owners
	next   uint16 // word with the same hash, plus one
}

const (
	startBytes = 3
	startBits  = 12
)

// owners is a set of indexes.
type owners [2]uint64

const maxOwners = 2 * 64

func (o *owners) add(i int)      { o[i/64] |= 1 << (i % 64) }
func (o *owners) has(i int) bool { return o[i/64]&(1<<(i%64)) != 0 }

func (o *owners) addAll(more *owners) {
	o[0] |= more[0]
	o[1] |= more[1]
}

// newWordSet is the set of the words of owners, of which there are at most maxOwners.
func newWordSet(of ...[]string) *wordSet {
	all := map[string]*owners{}
	var order []string
	for i, list := range of {
		for _, w := range list {
			if all[w] == nil {
				all[w] = &owners{}
				order = append(order, w)
			}
			all[w].add(i)
		}
	}
	s := &wordSet{}
	for _, text := range order {
		w := setWord{text: text, owners: *all[text]}
		if len(text) < startBytes {
			s.short = append(s.short, w)
			continue
		}
		h := startOf(text, 0)
		w.next = s.heads[h]
		s.words = append(s.words, w)
		s.heads[h] = uint16(len(s.words)) //nolint:gosec // some hundreds
		s.starts[h/64] |= 1 << (h % 64)
	}
	return s
}

// startOf is a hash of the startBytes bytes at i.
func startOf(text string, i int) uint32 {
	w := uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16
	return w * 0x9e3779b1 >> (32 - startBits)
}

// in are the owners with a word in a text.
func (s *wordSet) in(text string) (found owners) {
	for i := range s.short {
		if strings.Contains(text, s.short[i].text) {
			found.addAll(&s.short[i].owners)
		}
	}
	for i := 0; i+startBytes <= len(text); i++ {
		h := startOf(text, i)
		if s.starts[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for n := s.heads[h]; n > 0; n = s.words[n-1].next {
			if w := &s.words[n-1]; strings.HasPrefix(text[i:], w.text) {
				found.addAll(&w.owners)
			}
		}
	}
	return found
}

// The words of patterns, by the patterns' indexes, and those of texts about injections.
var (
	patternWords = wordsOf(patterns)
	compactWords = wordsOf(compactPatterns)
	topicWords   = newWordSet(topics)
)

func wordsOf(list []pattern) *wordSet {
	words := make([][]string, len(list))
	for i := range list {
		words[i] = list[i].words
	}
	return newWordSet(words...)
}
