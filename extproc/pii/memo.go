package pii

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Memo remembers what was found in texts, so that of a conversation only the new turns are searched. It keeps hashes and offsets, no texts. Safe for concurrent
// use.
type Memo struct {
	scanner *Scanner
	seeds   [2]maphash.Seed
	known   *lru.Cache[TextKey, []Span]
	spans   atomic.Int64 // in known
	clean   *lru.Cache[TextKey, struct{}]
}

// TextKey stands for a text: two hashes of it with seeds of this process, and its length.
type TextKey struct {
	a, b uint64
	n    int
}

// memoTexts is how many texts are remembered of which something is known, and how many that have nothing; memoSpans bounds the values in them, whose places take 48 bytes
// each.
const (
	memoTexts = 1 << 14
	memoSpans = 1 << 18
)

// NewMemo remembers what a scanner finds.
func NewMemo(s *Scanner) *Memo {
	m := &Memo{scanner: s, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	m.known, _ = lru.NewWithEvict(memoTexts, func(_ TextKey, spans []Span) { m.spans.Add(-int64(len(spans))) }) // fails for a size below 1 only
	m.clean, _ = lru.New[TextKey, struct{}](memoTexts)
	return m
}

// KeyOf is the key of a text as it stands in a document. What is read differently has another kind.
func (m *Memo) KeyOf(raw []byte, kind uint8) TextKey {
	return TextKey{maphash.Bytes(m.seeds[0], raw), maphash.Bytes(m.seeds[1], raw), len(raw)<<8 | int(kind)}
}

// Clean reports whether SetClean was called for a key. Without a call nothing is known.
func (m *Memo) Clean(k TextKey) bool {
	_, ok := m.clean.Get(k)
	return ok
}

// SetClean remembers that a text has nothing that is looked for.
func (m *Memo) SetClean(k TextKey) { m.clean.Add(k, struct{}{}) }

// shortest is how many bytes the shortest value has, or fewer.
const shortest = 6

// FindOnce is Find without a memory of the text.
func (m *Memo) FindOnce(ctx context.Context, text string) ([]Span, error) {
	if len(text) < shortest {
		return nil, nil
	}
	return m.scanner.Find(ctx, text)
}

// Find is Scanner.Find. The spans are shared and must not be changed.
func (m *Memo) Find(ctx context.Context, text string) ([]Span, error) {
	if len(text) < shortest {
		return nil, nil
	}
	k := TextKey{maphash.String(m.seeds[0], text), maphash.String(m.seeds[1], text), len(text)}
	if spans, ok := m.known.Get(k); ok {
		return spans, nil
	}
	spans, err := m.scanner.Find(ctx, text)
	if err == nil {
		m.remember(k, spans)
	}
	return spans, err
}

// remember keeps the spans of a text, in place of the oldest ones.
func (m *Memo) remember(k TextKey, spans []Span) {
	spans = slices.Clip(spans)
	if there, _ := m.known.ContainsOrAdd(k, spans); there {
		return
	}
	m.spans.Add(int64(len(spans)))
	for m.spans.Load() > memoSpans {
		if _, _, ok := m.known.RemoveOldest(); !ok {
			return
		}
	}
}
