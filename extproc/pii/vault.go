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

// A placeholder is <TYPE_SUFFIX>. The suffix is a keyed hash of type and value: the same value has the same placeholder in all turns of a tenant's
// conversations and in all gateways with the same key, so that nothing is stored between turns and prompts keep their beginnings.
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

// Key is what placeholders are derived with. Who has it can test whether a placeholder stands for a guessed value.
type Key [sha256.Size]byte

// TenantKey derives a tenant's key from a gateway's secret.
func TenantKey(secret []byte, tenant string) (k Key) {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("pii placeholders\x00" + tenant))
	m.Sum(k[:0])
	return k
}

// Vault has the values of one conversation and their placeholders, in memory alone. For all texts that were masked with it, restoring a masked text gives the
// text. Not safe for concurrent use; restoring is, once nothing is masked any more.
type Vault struct {
	mac     hash.Hash         // with the tenant's key
	holders map[string]string // by value
	values  map[string]string // by placeholder
	lengths map[[4]byte][]int // of values, by their first bytes
	starts  [256]bool         // first bytes of values
	shy     map[string]bool   // values that are replaced only where a string is the value and nothing else
	adopted []string          // placeholders
	sorted  bool              // of adopted
	scratch []byte
	work    int // bytes of texts that were compared with values
	allowed int // so many may be
}

// How many bytes of texts are compared with values: in any case, and for each byte of a text. Texts that people and programs write need far less.
const (
	freeWork    = 1 << 24
	workPerByte = 64
)

// Exhausted reports whether so much was compared that Mask has left out places where a value may stand: what it returned must not be used. It takes values that are made
// for it.
func (v *Vault) Exhausted() bool { return v.work > v.allowed }

// NewVault returns an empty vault.
func NewVault(k Key) *Vault {
	return &Vault{mac: hmac.New(sha256.New, k[:]), holders: map[string]string{}, values: map[string]string{}, lengths: map[[4]byte][]int{}, shy: map[string]bool{}, allowed: freeWork}
}

// Len is the number of values.
func (v *Vault) Len() int { return len(v.values) }

// Holder is the placeholder of a value, which it gets on first use; the type is that of the first use.
func (v *Vault) Holder(t Type, value string) string {
	if h, ok := v.holders[value]; ok {
		return h
	}
	h := v.draw(t, value)
	v.holders[value], v.values[h] = h, value
	v.adopted, v.sorted = append(v.adopted, h), false
	if t == Name && isCommonWord(value) {
		v.shy[value] = true
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

// isCommonWord reports whether a name may be another word elsewhere, such as Will and Mark: one word of a script with capitals.
func isCommonWord(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	return unicode.IsUpper(first) && !strings.ContainsAny(name, " -")
}

// draw derives a placeholder that no other value has.
func (v *Vault) draw(t Type, value string) string {
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

// Learn gives placeholders to the values of a text, so that Mask replaces them in other texts too, where nothing tells what they are.
func (v *Vault) Learn(text string, spans []Span) {
	for _, s := range spans {
		v.Holder(s.Type, text[s.Start:s.End])
	}
}

// Mask replaces the values of a text, which are sorted and do not overlap, and all others that the vault knows, where they are not part of a longer word: names of
// one word only where they are a string, or the text.
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

// maskKnown appends text[from:to] without known values and look-alikes of placeholders.
func (v *Vault) maskKnown(out []byte, text string, from, to int) []byte {
	done := from
	for i := from; i < to; {
		n, t := 0, lookalike
		switch c := text[i]; {
		case c == '<':
			n = holderLen(text[i:to])
			if n == 0 {
				n = v.known(text, i, to)
			}
		case v.starts[c]:
			n = v.known(text, i, to)
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

// known is the length of the longest known value at i; 0 for none.
func (v *Vault) known(text string, i, to int) int {
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
		if _, ok := v.holders[text[i:end]]; ok && (!v.shy[text[i:end]] || i > 0 && text[i-1] == '"' && end < len(text) && text[end] == '"') {
			return n
		}
	}
	return 0
}

// inWord reports whether two bytes belong to one word.
func inWord(a, b byte) bool { return classes[a]&word != 0 && classes[b]&word != 0 }

// holderLen is the length of the text at the start of s that has the form of a placeholder; 0 for none.
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

// Restore puts the values back into a text. Only exact placeholders are known.
func (v *Vault) Restore(text string) string {
	if len(v.values) == 0 || strings.IndexByte(text, '<') < 0 {
		return text
	}
	r := v.NewRestorer(false)
	return string(r.Close(r.Feed(nil, []byte(text))))
}
