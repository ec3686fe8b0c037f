package pii

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Memo caches the findings of texts, so that only new turns of a conversation are scanned. It stores hashes and offsets, no texts. Safe for concurrent use.
type Memo struct {
	scanner *Scanner
	seeds   [2]maphash.Seed
	cache   *lru.Cache[TextKey, []Span]
	spans   atomic.Int64 // number of cached spans
	clean   *lru.Cache[TextKey, struct{}]
}

// TextKey identifies a text: two hashes with seeds of this process, and its length.
type TextKey struct {
	a, b uint64
	n    int
}

// memoTexts is the maximum number of cached texts with findings, and of those without; memoSpans is the maximum number of cached spans, of 48 bytes each.
const (
	memoTexts = 1 << 14
	memoSpans = 1 << 18
)

// NewMemo returns an empty cache of a scanner's findings.
func NewMemo(s *Scanner) *Memo {
	m := &Memo{scanner: s, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	m.cache, _ = lru.NewWithEvict(memoTexts, func(_ TextKey, spans []Span) { m.spans.Add(-int64(len(spans))) }) // fails for a size below 1 only
	m.clean, _ = lru.New[TextKey, struct{}](memoTexts)
	return m
}

// KeyOf returns the key of a text in a document. kind distinguishes different ways to parse it.
func (m *Memo) KeyOf(raw []byte, kind uint8) TextKey {
	return TextKey{maphash.Bytes(m.seeds[0], raw), maphash.Bytes(m.seeds[1], raw), len(raw)<<8 | int(kind)}
}

// Clean reports whether SetClean was called for a key; otherwise nothing is known of the text.
func (m *Memo) Clean(k TextKey) bool {
	_, ok := m.clean.Get(k)
	return ok
}

// SetClean stores that a text has no values.
func (m *Memo) SetClean(k TextKey) { m.clean.Add(k, struct{}{}) }

// minValue is a lower bound of the length of values, in bytes.
const minValue = 6

// FindOnce is Find without the cache.
func (m *Memo) FindOnce(ctx context.Context, text string) ([]Span, error) {
	if len(text) < minValue {
		return nil, nil
	}
	return m.scanner.Find(ctx, text)
}

// Find is Scanner.Find with the cache. The spans are shared and must not be changed.
func (m *Memo) Find(ctx context.Context, text string) ([]Span, error) {
	if len(text) < minValue {
		return nil, nil
	}
	k := TextKey{maphash.String(m.seeds[0], text), maphash.String(m.seeds[1], text), len(text)}
	if spans, ok := m.cache.Get(k); ok {
		return spans, nil
	}
	spans, err := m.scanner.Find(ctx, text)
	if err == nil {
		m.remember(k, spans)
	}
	return spans, err
}

// remember caches the spans of a text, and evicts the oldest ones above memoSpans.
func (m *Memo) remember(k TextKey, spans []Span) {
	spans = slices.Clip(spans)
	if there, _ := m.cache.ContainsOrAdd(k, spans); there {
		return
	}
	m.spans.Add(int64(len(spans)))
	for m.spans.Load() > memoSpans {
		if _, _, ok := m.cache.RemoveOldest(); !ok {
			return
		}
	}
}
