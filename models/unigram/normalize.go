package unigram

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"golang.org/x/text/unicode/norm"
)

// step transforms a text before it is split.
type step func(string) string

// readNormalizer returns the steps of a tokenizer's normalizer.
func readNormalizer(b json.RawMessage) ([]step, error) {
	if len(b) == 0 || string(b) == "null" {
		return nil, nil
	}
	var n struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Left        bool              `json:"strip_left"`
		Right       bool              `json:"strip_right"`
		Charsmap    []byte            `json:"precompiled_charsmap"`
		Content     string            `json:"content"`
		Pattern     struct {
			String string
			Regex  string
		} `json:"pattern"`
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	switch n.Type {
	case "Sequence":
		var all []step
		for _, one := range n.Normalizers {
			steps, err := readNormalizer(one)
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		return all, nil
	case "Strip":
		return []step{strip(n.Left, n.Right)}, nil
	case "Precompiled":
		c, err := readCharsmap(n.Charsmap)
		if err != nil {
			return nil, err
		}
		return []step{c.normalize}, nil
	case "Replace":
		return replace(n.Pattern.String, n.Pattern.Regex, n.Content)
	case "NFC", "NFD", "NFKC", "NFKD":
		return []step{forms[n.Type].String}, nil
	}
	return nil, fmt.Errorf("tokenizer: the normaliser %q is not supported", n.Type)
}

func strip(left, right bool) step {
	return func(s string) string {
		if left {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s
	}
}

// spaces is the only pattern in such tokenizers.
var spaces = regexp.MustCompile(` {2,}`)

func replace(text, pattern, by string) ([]step, error) {
	switch {
	case text != "":
		return []step{func(s string) string { return strings.ReplaceAll(s, text, by) }}, nil
	case pattern == spaces.String():
		return []step{func(s string) string { return spaces.ReplaceAllLiteralString(s, by) }}, nil
	}
	return nil, fmt.Errorf("tokenizer: the pattern %q is not supported", pattern)
}

// charsmap is a table of replacements in sentencepiece's compiled form: a trie in a double array, whose values are offsets into the replacements,
// which end with a zero byte.
type charsmap struct {
	units []uint32
	texts string
}

func readCharsmap(b []byte) (*charsmap, error) {
	broken := errors.New("tokenizer: its table of characters is broken")
	if len(b) < 4 {
		return nil, broken
	}
	size := int(binary.LittleEndian.Uint32(b))
	if b = b[4:]; size%4 != 0 || size == 0 || size > len(b) {
		return nil, broken
	}
	c := &charsmap{texts: string(b[size:])}
	for ; size > 0; size -= 4 {
		c.units = append(c.units, binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	if !utf8.ValidString(c.texts) {
		return nil, broken
	}
	return c, nil
}

// The parts of a unit: whether it has a value, the value, its byte, and the offset of its children.
func hasLeaf(u uint32) bool  { return u>>8&1 == 1 }
func value(u uint32) int     { return int(u & (1<<31 - 1)) }
func label(u uint32) uint32  { return u & (1<<31 | 0xFF) }
func offset(u uint32) uint32 { return (u >> 10) << ((u & (1 << 9)) >> 6) }

// find returns the replacement of the shortest prefix of s that has one.
func (c *charsmap) find(s string) (by string, ok bool) {
	at := offset(c.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		if int(at) >= len(c.units) || label(c.units[at]) != uint32(s[i]) {
			return "", false
		}
		leaf := hasLeaf(c.units[at])
		if at ^= offset(c.units[at]); int(at) >= len(c.units) {
			return "", false
		}
		if leaf {
			return c.text(value(c.units[at]))
		}
	}
	return "", false
}

func (c *charsmap) text(at int) (string, bool) {
	if at > len(c.texts) {
		return "", false
	}
	by, _, _ := strings.Cut(c.texts[at:], "\x00")
	return by, true
}

// longestCluster is the length in bytes from which a cluster of characters is replaced character by character.
const longestCluster = 6

// normalize replaces the clusters of a text as the reference does: a short cluster as a whole by the replacement of its shortest known prefix, or
// else each of its characters.
func (c *charsmap) normalize(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for all := graphemes.FromString(s); all.Next(); {
		cluster := all.Value()
		if len(cluster) < longestCluster {
			if by, ok := c.find(cluster); ok {
				b.WriteString(by)
				continue
			}
		}
		for cluster != "" {
			_, size := utf8.DecodeRuneInString(cluster)
			by, ok := c.find(cluster[:size])
			if !ok {
				by = cluster[:size]
			}
			b.WriteString(by)
			cluster = cluster[size:]
		}
	}
	return b.String()
}
