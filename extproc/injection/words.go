package injection

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// wordSet finds the words of a set in a text, in one pass. Each word belongs to owners, which are indexes.
type wordSet struct {
	starts [1 << startBits / 64]uint64 // hashes of the words' first bytes
	heads  [1 << startBits]uint16      // first word of each hash, plus one
	words  []setWord
	short  []setWord // words shorter than startBytes
}

type setWord struct {
	text   string
	owners owners
	next   uint16 // next word with the same hash, plus one
}

const (
	startBytes = 3
	startBits  = 14
)

// owners is a set of indexes.
type owners [8]uint64

const maxOwners = len(owners{}) * 64

func (o *owners) add(i int)      { o[i/64] |= 1 << (i % 64) }
func (o *owners) has(i int) bool { return o[i/64]&(1<<(i%64)) != 0 }

func (o *owners) addAll(more *owners) {
	for i, m := range more {
		o[i] |= m
	}
}

// newWordSet returns the set of the words of owners, at most maxOwners of them.
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

// startOf returns a hash of the startBytes bytes at i.
func startOf(text string, i int) uint32 {
	w := uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16
	return w * 0x9e3779b1 >> (32 - startBits)
}

// in returns the owners with a word in a text.
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

// topicWords are words of texts about injections.
var topicWords = newWordSet(topics)

// patternSet is a set of patterns with the words that matching texts must have.
type patternSet struct {
	list  []compiled
	words *wordSet
	needs [][][]int // for each alternative of each pattern, the owners of which a matching text has a word each
}

// The patterns with the words that they need, computed at first use, which takes about 15 ms of CPU. Compiling all expressions would take as long again.
var (
	plainPatterns   = sync.OnceValue(func() *patternSet { return newPatternSet(patterns()) })
	spelledPatterns = sync.OnceValue(func() *patternSet { return newPatternSet(compactPatterns) })
)

// compiled is a pattern that can be matched.
type compiled struct {
	pattern
	re func() *regexp.Regexp // compiled at its first use
}

func newPatternSet(list []pattern) *patternSet {
	s := &patternSet{list: make([]compiled, len(list)), needs: make([][][]int, len(list))}
	var words [][]string
	for i := range list {
		s.list[i] = compiled{list[i], sync.OnceValue(list[i].source.compiled)}
		for _, sets := range list[i].needs() {
			var owners []int
			for _, set := range sets {
				at := slices.IndexFunc(words, func(w []string) bool { return slices.Equal(w, set) })
				switch {
				case at < 0 && len(words) == maxOwners: // more texts are matched than necessary
					continue
				case at < 0:
					at = len(words)
					words = append(words, set)
				}
				owners = append(owners, at)
			}
			s.needs[i] = append(s.needs[i], owners)
		}
	}
	s.words = newWordSet(words...)
	return s
}

// mayMatch reports whether a pattern may match a text with words of the found owners; false is certain.
func (s *patternSet) mayMatch(i int, found *owners) bool {
	return slices.ContainsFunc(s.needs[i], func(owners []int) bool {
		for _, n := range owners {
			if !found.has(n) {
				return false
			}
		}
		return true
	})
}
