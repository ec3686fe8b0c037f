// Package unigram is the tokenizer of models such as DeBERTa: it normalises a text by a table of characters, marks word starts, and splits each word
// into the most probable sequence of pieces. It gives the same tokens as the library that the models were trained with.
package unigram

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/models/vocab"
)

// Tokenizer splits texts into tokens. Safe for concurrent use.
type Tokenizer struct {
	steps   []step
	mark    string // start of a word
	pieces  *trie
	scores  []float64 // by id
	unknown int32
	penalty float64 // score of an unknown character

	asIs       *vocab.Splitter // added tokens in the original text
	normalized *vocab.Splitter // added tokens in the normalised text

	before, after int32
}

// unknownPenalty is the difference between the score of an unknown character and the lowest score of a piece.
const unknownPenalty = 10

// Read reads a tokenizer.json.
func Read(b []byte) (*Tokenizer, error) {
	f, err := vocab.Parse(b)
	if err != nil {
		return nil, err
	}
	t := new(Tokenizer)
	if err := errors.Join(t.readModel(f.Model), t.readMark(f.PreTokenizer)); err != nil {
		return nil, err
	}
	if t.steps, err = readNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if t.before, t.after, err = f.Frame(); err != nil {
		return nil, err
	}
	t.asIs = f.NewSplitter(func(a vocab.Added) bool { return !a.Normalized }, func(s string) string { return s })
	t.normalized = f.NewSplitter(func(a vocab.Added) bool { return a.Normalized }, t.normalize)
	return t, nil
}

func (t *Tokenizer) readModel(b json.RawMessage) error {
	var m struct {
		Type    string               `json:"type"`
		Unknown *int32               `json:"unk_id"`
		Bytes   bool                 `json:"byte_fallback"`
		Vocab   [][2]json.RawMessage `json:"vocab"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	if m.Type != "Unigram" || m.Bytes || m.Unknown == nil || *m.Unknown < 0 || int(*m.Unknown) >= len(m.Vocab) {
		return errors.New("tokenizer: expected a Unigram model with an unknown token, and without one for each byte")
	}
	t.unknown = *m.Unknown
	lowest := math.Inf(1)
	pieces := make([]keyed, len(m.Vocab))
	t.scores = make([]float64, len(m.Vocab))
	for i, entry := range m.Vocab {
		if err := errors.Join(json.Unmarshal(entry[0], &pieces[i].piece), json.Unmarshal(entry[1], &t.scores[i])); err != nil {
			return fmt.Errorf("tokenizer: piece %d: %w", i, err)
		}
		pieces[i].id = int32(i)
		lowest = min(lowest, t.scores[i])
	}
	t.pieces, t.penalty = newTrie(pieces), lowest-unknownPenalty
	return nil
}

// readMark requires that all words start with a mark, including the first.
func (t *Tokenizer) readMark(b json.RawMessage) error {
	var p struct {
		Type    string            `json:"type"`
		Steps   []json.RawMessage `json:"pretokenizers"`
		Mark    string            `json:"replacement"`
		Prepend string            `json:"prepend_scheme"`
		Split   *bool             `json:"split"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	if p.Type == "Sequence" && len(p.Steps) == 1 {
		return t.readMark(p.Steps[0])
	}
	if p.Type != "Metaspace" || p.Mark == "" || p.Prepend != "always" || p.Split != nil && !*p.Split {
		return errors.New("tokenizer: expected words that are marked at their beginning")
	}
	t.mark = p.Mark
	return nil
}

func (t *Tokenizer) normalize(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for _, change := range t.steps {
		s = change(s)
	}
	return s
}

// Frame returns the special tokens before and after a text.
func (t *Tokenizer) Frame() (before, after int32) { return t.before, t.after }

// Unknown returns the token for text without another one.
func (t *Tokenizer) Unknown() int32 { return t.unknown }

// Encode returns the tokens of a text without its frame, only the first limit of them if limit is above 0. It takes linear time.
func (t *Tokenizer) Encode(text string, limit int) []int32 {
	c := cutter{t: t, limit: limit}
	for text != "" && !c.full() {
		before, id, after, ok := t.asIs.Cut(text)
		c.normalized(t.normalize(before))
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
	ends  []end // of the current word
	rev   []int32
}

func (c *cutter) full() bool { return c.limit > 0 && len(c.out) >= c.limit }

// normalized splits a normalised text.
func (c *cutter) normalized(s string) {
	for s != "" && !c.full() {
		before, id, after, ok := c.t.normalized.Cut(s)
		c.words(before)
		if ok {
			c.out = append(c.out, id)
		}
		s = after
	}
}

// words marks the starts of words, and splits each.
func (c *cutter) words(s string) {
	if s == "" {
		return
	}
	mark := c.t.mark
	s = strings.ReplaceAll(s, " ", mark)
	if !strings.HasPrefix(s, mark) {
		s = mark + s
	}
	for s != "" && !c.full() {
		n := strings.Index(s[len(mark):], mark)
		if n < 0 {
			n = len(s) - len(mark)
		}
		c.word(s[:n+len(mark)])
		s = s[n+len(mark):]
	}
}

// end is the best way to split a word up to a byte.
type end struct {
	score float64
	from  int // start of the last piece; -1: unreachable
	id    int32
}

// word splits a word into the pieces whose scores have the largest sum.
func (c *cutter) word(w string) {
	c.ends = append(c.ends[:0], end{})
	for range len(w) {
		c.ends = append(c.ends, end{from: -1})
	}
	for i := 0; i < len(w); {
		_, size := utf8.DecodeRuneInString(w[i:])
		if !c.extend(w, i, size) {
			c.offer(i, i+size, c.ends[i].score+c.t.penalty, c.t.unknown)
		}
		i += size
	}
	c.rev = c.rev[:0]
	for at := len(w); at > 0; at = c.ends[at].from {
		id := c.ends[at].id
		if id == c.t.unknown && len(c.rev) > 0 && c.rev[len(c.rev)-1] == id {
			continue // adjacent unknown characters form one token
		}
		c.rev = append(c.rev, id)
	}
	slices.Reverse(c.rev)
	c.out = append(c.out, c.rev...)
}

// extend considers all pieces at an offset of a word. single reports whether the character there is a piece.
func (c *cutter) extend(w string, from, size int) (single bool) {
	p := c.t.pieces
	for node, i := int32(0), from; i < len(w); {
		if node = p.child(node, w[i]); node < 0 {
			return single
		}
		i++
		if id := p.ids[node]; id >= 0 {
			c.offer(from, i, c.t.scores[id]+c.ends[from].score, id)
			single = single || i-from == size
		}
	}
	return single
}

func (c *cutter) offer(from, to int, score float64, id int32) {
	if e := &c.ends[to]; e.from < 0 || score > e.score {
		*e = end{score, from, id}
	}
}
