// Package wordpiece is the tokenizer of uncased BERT models: it cleans a text and converts it to lower case, splits it at white space and
// punctuation, and splits each word into the longest known pieces. It gives the same tokens as the library that the models were trained with, for
// every text.
package wordpiece

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"bardo.money/gateway/models/vocab"
)

// Tokenizer splits texts into tokens. Safe for concurrent use.
type Tokenizer struct {
	whole   map[string]int32 // pieces at the start of a word
	rest    map[string]int32 // pieces after another one, without their mark
	longest int              // of all pieces, in bytes
	unknown int32
	maxWord int // characters
	special *vocab.Splitter

	before, after int32
}

// mark is the prefix of pieces that follow another one.
const mark = "##"

// Read reads a tokenizer.json.
func Read(b []byte) (*Tokenizer, error) {
	f, err := vocab.Parse(b)
	if err != nil {
		return nil, err
	}
	var m struct {
		Type    string           `json:"type"`
		Vocab   map[string]int32 `json:"vocab"`
		Unknown string           `json:"unk_token"`
		Mark    string           `json:"continuing_subword_prefix"`
		MaxWord int              `json:"max_input_chars_per_word"`
	}
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if m.Type != "WordPiece" || m.Mark != mark || m.MaxWord < 1 {
		return nil, fmt.Errorf("tokenizer: expected a WordPiece model with the mark %s, not %s with %q", mark, m.Type, m.Mark)
	}
	t := &Tokenizer{whole: make(map[string]int32), rest: make(map[string]int32), maxWord: m.MaxWord}
	var ok bool
	if t.unknown, ok = m.Vocab[m.Unknown]; !ok {
		return nil, errors.New("tokenizer: the vocabulary has no token for unknown words")
	}
	for piece, id := range m.Vocab {
		if id < 0 || id > maxID {
			return nil, fmt.Errorf("tokenizer: token %q has the id %d", piece, id)
		}
		t.longest = max(t.longest, len(piece))
		if cont, ok := strings.CutPrefix(piece, mark); ok {
			t.rest[cont] = id
		}
		t.whole[piece] = id
	}
	if t.before, t.after, err = f.Frame(); err != nil {
		return nil, err
	}
	t.special = f.NewSplitter(func(vocab.Added) bool { return true }, func(s string) string { return s })
	return t, checkForm(f)
}

// maxID limits ids: no vocabulary in use is as large.
const maxID = 1 << 24

// checkForm requires the form of normalisation that this package implements.
func checkForm(f *vocab.File) error {
	var n struct {
		Type    string `json:"type"`
		Clean   bool   `json:"clean_text"`
		Chinese bool   `json:"handle_chinese_chars"`
		Accents *bool  `json:"strip_accents"`
		Lower   bool   `json:"lowercase"`
	}
	var p struct {
		Type string `json:"type"`
	}
	if err := errors.Join(json.Unmarshal(f.Normalizer, &n), json.Unmarshal(f.PreTokenizer, &p)); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	if n.Type != "BertNormalizer" || !n.Clean || !n.Chinese || !n.Lower || n.Accents != nil && !*n.Accents || p.Type != "BertPreTokenizer" {
		return errors.New("tokenizer: expected the form of uncased BERT models")
	}
	for _, a := range f.Added {
		if a.Normalized {
			return fmt.Errorf("tokenizer: added token %q is looked for in normalised text, which is not supported", a.Content)
		}
	}
	return nil
}

// Frame returns the special tokens before and after a text.
func (t *Tokenizer) Frame() (before, after int32) { return t.before, t.after }

// Unknown returns the token of words without another one.
func (t *Tokenizer) Unknown() int32 { return t.unknown }

// Encode returns the tokens of a text without its frame, only the first limit of them if limit is above 0. It takes linear time.
func (t *Tokenizer) Encode(text string, limit int) []int32 {
	c := cutter{t: t, limit: limit}
	for text != "" && !c.full() {
		before, id, after, ok := t.special.Cut(text)
		c.text(before)
		if ok {
			c.out = append(c.out, id)
		}
		text = after
	}
	if c.full() {
		return c.out[:limit]
	}
	return c.out
}

// cutter is the state of encoding one text.
type cutter struct {
	t     *Tokenizer
	limit int
	out   []int32
}

func (c *cutter) full() bool { return c.limit > 0 && len(c.out) >= c.limit }

// spans is how much of a text is normalised at a time: a text that is cut after a few tokens is not normalised to its end.
const spans = 4 << 10

// text splits a text without special tokens.
func (c *cutter) text(s string) {
	for s != "" && !c.full() {
		n := len(s)
		if n > spans {
			n = breakAfter(s, spans)
		}
		c.words(normalize(s[:n]))
		s = s[n:]
	}
}

// breakAfter returns the first offset at or after n where a text can be split without changing its words: after ASCII white space.
func breakAfter(s string, n int) int {
	i := strings.IndexAny(s[n:], " \n\t\r")
	if i < 0 {
		return len(s)
	}
	return n + i + 1
}

// normalize cleans a text, separates Chinese characters, and removes accents and case.
func normalize(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	ascii := true
	for _, r := range s {
		ascii = ascii && r < utf8.RuneSelf
		switch {
		case r == 0 || r == utf8.RuneError || isControl(r):
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case isChinese(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	if ascii {
		return strings.ToLower(b.String())
	}
	return strings.Map(plain, norm.NFD.String(b.String()))
}

// plain returns a character in lower case; -1 for a mark.
func plain(r rune) rune {
	if isMark(r) {
		return -1
	}
	return lower(r)
}

// words splits a normalised text at white space and punctuation; each punctuation mark is a word.
func (c *cutter) words(s string) {
	start := -1
	for i, r := range s {
		space, punct := unicode.IsSpace(r), isPunct(r)
		if !space && !punct {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			c.word(s[start:i])
			start = -1
		}
		if punct {
			c.word(s[i : i+utf8.RuneLen(r)])
		}
		if c.full() {
			return
		}
	}
	if start >= 0 {
		c.word(s[start:])
	}
}

// word splits a word into the longest pieces from the left. One without such pieces, or that is too long, is unknown as a whole.
func (c *cutter) word(w string) {
	if len(w) > c.t.maxWord && utf8.RuneCountInString(w) > c.t.maxWord {
		c.out = append(c.out, c.t.unknown)
		return
	}
	begin, pieces := len(c.out), c.t.whole
	for w != "" {
		n, id := longest(pieces, w, c.t.longest)
		if n == 0 {
			c.out = append(c.out[:begin], c.t.unknown)
			return
		}
		c.out = append(c.out, id)
		w, pieces = w[n:], c.t.rest
	}
}

// longest returns the id of the longest piece that a word starts with, and its length in bytes.
func longest(pieces map[string]int32, w string, limit int) (n int, id int32) {
	for n = min(len(w), limit); n > 0; n-- {
		if n < len(w) && !utf8.RuneStart(w[n]) {
			continue
		}
		if id, ok := pieces[w[:n]]; ok {
			return n, id
		}
	}
	return 0, 0
}
