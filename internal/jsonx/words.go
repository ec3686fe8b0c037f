package jsonx

// Words is an approximate set of a text's words (a Bloom filter): it may report words that do not occur. It shows whether a text needs to be walked.
// Words that differ only by case are the same.
type Words [16]uint64

// maxWord is the length of the longest string value that is added as a word, in bytes.
const maxWord = 32

// WordsOf returns a set of words, of at most maxWord bytes each.
func WordsOf(words ...string) (w Words) {
	for _, s := range words {
		w.add([]byte(s))
	}
	return w
}

// Meets reports whether the two sets may have a word in common.
func (w *Words) Meets(other *Words) bool {
	for i := range w {
		if w[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// addKey adds a member's name. One with escapes, or with non-ASCII letters that may fold to others, counts as all words.
func (w *Words) addKey(text []byte, escaped bool) {
	high := byte(0)
	for _, c := range text {
		high |= c
	}
	if escaped || high >= 0x80 {
		for i := range w {
			w[i] = ^uint64(0)
		}
		return
	}
	w.add(text)
}

// add adds a word.
func (w *Words) add(text []byte) {
	const lower = 0x20
	n := len(text)
	if n == 0 {
		return
	}
	h := uint32(text[0]|lower)<<24 | uint32(text[n/2]|lower)<<16 | uint32(text[n-1]|lower)<<8 | uint32(n)&0xff //nolint:gosec // of a long name, the rest does
	h = h * 0x9e3779b1 >> 22
	w[h>>6] |= 1 << (h & 63)
}
