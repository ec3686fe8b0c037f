package pii

import "math/bits"

// labels are labels before a value, with ASCII letters in lower case: at most 64.
type labels struct {
	all  []string
	ends [256]uint64 // labels by their last byte, as bits
}

func newLabels(all ...string) *labels {
	l := &labels{all: all}
	for i, label := range all {
		l.ends[label[len(label)-1]] |= 1 << i
	}
	return l
}

// maxLabel is the maximum length of a label, in bytes.
const maxLabel = 24

// labelled reports whether one of the labels ends at most gap bytes before i, as a whole word, without a digit in between. Only the nearest occurrence of each
// label is checked.
func (s *scan) labelled(i, gap int, l *labels) bool {
	first := max(0, i-gap-maxLabel)
	passed := uint64(0) // labels that were found within longer words
	for at := i; at > first && i-at <= gap; at-- {
		c := lowerASCII(s.text[at-1])
		for left := l.ends[c] &^ passed; left != 0; left &= left - 1 {
			n := bits.TrailingZeros64(left)
			switch from := at - len(l.all[n]); {
			case from < first || !s.reads(from, l.all[n]):
			case from == first || !s.is(from-1, letter|digit):
				return true
			default:
				passed |= 1 << n
			}
		}
		if classes[c]&digit != 0 {
			return false
		}
	}
	return false
}

// reads reports whether the text at i is a word, ignoring case. The word must fit into the text.
func (s *scan) reads(i int, word string) bool {
	for n := range len(word) {
		if lowerASCII(s.text[i+n]) != word[n] {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if classes[c]&upper != 0 {
		return c + 'a' - 'A'
	}
	return c
}
