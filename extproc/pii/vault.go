package pii

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A placeholder is <TYPE_SUFFIX>. The suffix is a keyed hash of type and value: a value has the same placeholder in all turns of a tenant's conversations and
// in all gateways with the same key. Nothing is therefore stored between turns, and prompts keep their prefixes (for prompt caches).
const (
	suffixBytes = 5
	suffixLen   = 8
	maxHolder   = len("<") + maxTypeBytes + len("_") + suffixLen + len(">")
)

const suffixAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // without letters that look like digits

var (
	suffixes = base32.NewEncoding(suffixAlphabet).WithPadding(base32.NoPadding)
	isSuffix = func() (t [256]bool) {
		for i := range len(suffixAlphabet) {
			t[suffixAlphabet[i]] = true
		}
		return t
	}()
)

// Key is the secret for the derivation of placeholders. With it, a guessed value can be tested against a placeholder.
type Key [sha256.Size]byte

// TenantKey derives a tenant's key from a gateway's secret.
func TenantKey(secret []byte, tenant string) (k Key) {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("pii placeholders\x00" + tenant))
	m.Sum(k[:0])
	return k
}

// Vault has the values of one conversation and their placeholders, only in memory. Restoring a text that was masked with it returns the original text. Not safe for
// concurrent use; restoring is, after all texts were masked.
type Vault struct {
	mac          hash.Hash         // with the tenant's key
	holders      map[string]string // by value
	values       map[string]string // by placeholder
	lengths      map[[4]byte][]int // lengths of values, by their first bytes
	starts       [256]bool         // first bytes of values
	wholeOnly    map[string]bool   // values that are only replaced if they are a whole string
	placeholders []string          // placeholders
	sorted       bool              // whether placeholders is sorted
	scratch      []byte
	work         int // bytes that were compared with values
	allowed      int // limit of work
}

// The limit of bytes that are compared with values: a fixed part, and a part per byte of the texts. Normal texts need far less.
const (
	freeWork    = 1 << 24
	workPerByte = 64
)

// Exhausted reports whether the limit of comparisons was reached, so that Mask may have missed values: its results must not be used. Only values that are
// crafted for it reach the limit.
func (v *Vault) Exhausted() bool { return v.work > v.allowed }

// NewVault returns an empty vault.
func NewVault(k Key) *Vault {
	return &Vault{mac: hmac.New(sha256.New, k[:]), holders: map[string]string{}, values: map[string]string{}, lengths: map[[4]byte][]int{}, wholeOnly: map[string]bool{}, allowed: freeWork}
}

// Len returns the number of values.
func (v *Vault) Len() int { return len(v.values) }

// Holder returns the placeholder of a value. It is created on first use, with the type of that use.
func (v *Vault) Holder(t Type, value string) string {
	if h, ok := v.holders[value]; ok {
		return h
	}
	h := v.newHolder(t, value)
	v.holders[value], v.values[h] = h, value
	v.placeholders, v.sorted = append(v.placeholders, h), false
	if t == Name && isCommonWord(value) {
		v.wholeOnly[value] = true
	}
	if len(value) >= 4 && t != lookalike {
		first := [4]byte([]byte(value[:4]))
		n := v.lengths[first]
		if at, ok := slices.BinarySearchFunc(n, len(value), func(a, b int) int { return b - a }); !ok {
			v.lengths[first] = slices.Insert(n, at, len(value))
		}
		v.starts[value[0]] = true
	}
	return h
}

// isCommonWord reports whether a name may be a common word elsewhere, such as Will and Mark: a single word of a script with capitals.
func isCommonWord(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	return unicode.IsUpper(first) && !strings.ContainsAny(name, " -")
}

// newHolder derives a placeholder that no other value has.
func (v *Vault) newHolder(t Type, value string) string {
	m := v.mac
	var sum [sha256.Size]byte
	for n := uint32(0); ; n++ {
		m.Reset()
		m.Write([]byte(t))
		m.Write(binary.BigEndian.AppendUint32([]byte{0}, n))
		m.Write([]byte(value))
		h := "<" + string(t) + "_" + suffixes.EncodeToString(m.Sum(sum[:0])[:suffixBytes]) + ">"
		if _, taken := v.values[h]; !taken {
			return h
		}
	}
}

// Learn creates placeholders for the values of a text, so that Mask replaces them in other texts, too, where they are not detected.
func (v *Vault) Learn(text string, spans []Span) {
	for _, s := range spans {
		v.Holder(s.Type, text[s.Start:s.End])
	}
}

// Mask replaces the values of a text, which are sorted and do not overlap, and all other values of the vault that are not part of a longer word; names of one word
// only if they are a whole string or the whole text.
func (v *Vault) Mask(text string, spans []Span) string {
	if h, ok := v.holders[text]; ok {
		return h
	}
	out := v.scratch[:0]
	v.allowed += workPerByte * len(text)
	done := 0
	for _, s := range spans {
		out = v.maskKnown(out, text, done, s.Start)
		out = append(out, v.Holder(s.Type, text[s.Start:s.End])...)
		done = s.End
	}
	out = v.maskKnown(out, text, done, len(text))
	v.scratch = out
	if string(out) == text {
		return text
	}
	return string(out)
}

// maskKnown appends text[from:to] with known values and look-alikes of placeholders replaced.
func (v *Vault) maskKnown(out []byte, text string, from, to int) []byte {
	done := from
	for i := from; i < to; {
		n, t := 0, lookalike
		switch c := text[i]; {
		case c == '<':
			n = holderLen(text[i:to])
			if n == 0 {
				n = v.knownLen(text, i, to)
			}
		case v.starts[c]:
			n = v.knownLen(text, i, to)
		}
		if n == 0 {
			i++
			continue
		}
		out = append(out, text[done:i]...)
		out = append(out, v.Holder(t, text[i:i+n])...)
		i += n
		done = i
	}
	return append(out, text[done:to]...)
}

// knownLen returns the length of the longest known value at i; 0 for none.
func (v *Vault) knownLen(text string, i, to int) int {
	if to-i < 4 || i > 0 && inWord(text[i-1], text[i]) {
		return 0
	}
	for _, n := range v.lengths[[4]byte([]byte(text[i:i+4]))] {
		end := i + n
		if v.work++; v.Exhausted() {
			return 0
		}
		if end > to || end < len(text) && inWord(text[end-1], text[end]) {
			continue
		}
		v.work += n
		if _, ok := v.holders[text[i:end]]; ok && (!v.wholeOnly[text[i:end]] || i > 0 && text[i-1] == '"' && end < len(text) && text[end] == '"') {
			return n
		}
	}
	return 0
}

// inWord reports whether two bytes belong to one word.
func inWord(a, b byte) bool { return classes[a]&word != 0 && classes[b]&word != 0 }

// holderLen returns the length of the text at the start of s that has the form of a placeholder; 0 for none.
func holderLen(s string) int {
	end := strings.IndexByte(s[:min(len(s), maxHolder)], '>')
	if end < len("<A_")+suffixLen {
		return 0
	}
	name, suffix := s[1:end-suffixLen-1], s[end-suffixLen:end]
	if s[0] != '<' || s[end-suffixLen-1] != '_' || !isTypeName(name) {
		return 0
	}
	for i := range len(suffix) {
		if !isSuffix[suffix[i]] {
			return 0
		}
	}
	return end + 1
}

// Restore replaces the placeholders in a text by their values. Only exact placeholders are replaced.
func (v *Vault) Restore(text string) string {
	if len(v.values) == 0 || strings.IndexByte(text, '<') < 0 {
		return text
	}
	r := v.NewRestorer(false)
	return string(r.Close(r.Feed(nil, []byte(text))))
}
