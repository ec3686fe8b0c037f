package jsonx

// Keys are the names of a text's members, roughly: of a name that is not there, it may be said that it is. It tells whether a text is worth
// walking.
type Keys [16]uint64

// KeysOf are some names.
func KeysOf(names ...string) (k Keys) {
	for _, n := range names {
		k.add([]byte(n), false)
	}
	return k
}

// Meets reports whether a name of one may be among those of the other, in whatever case.
func (k *Keys) Meets(other *Keys) bool {
	for i := range k {
		if k[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// add adds the name that is written as text. One with escapes, or with letters beyond ASCII that may be cases of others, counts as all.
func (k *Keys) add(text []byte, escaped bool) {
	n := len(text)
	if n == 0 {
		return
	}
	const lower = 0x20
	high := byte(0)
	for _, c := range text {
		high |= c
	}
	if escaped || high >= 0x80 {
		for i := range k {
			k[i] = ^uint64(0)
		}
		return
	}
	h := uint32(text[0]|lower)<<24 | uint32(text[n/2]|lower)<<16 | uint32(text[n-1]|lower)<<8 | uint32(n)&0xff //nolint:gosec // of a long name, the rest does
	h = h * 0x9e3779b1 >> 22
	k[h>>6] |= 1 << (h & 63)
}
