package pii

import (
	"context"
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Memo remembers what was found in texts, so that of a conversation only the new turns are searched. It keeps hashes and offsets, no texts. Safe for concurrent
// use.
type Memo struct {
	scanner *Scanner
	seeds   [2]maphash.Seed
	known   *lru.Cache[memoKey, []Span]
}

type memoKey struct {
	a, b uint64
	n    int
}

// memoTexts is how many texts are remembered.
const memoTexts = 1 << 14

// NewMemo remembers what a scanner finds.
func NewMemo(s *Scanner) *Memo {
	known, _ := lru.New[memoKey, []Span](memoTexts) // fails for a size below 1 only
	return &Memo{scanner: s, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: known}
}

// Find is Scanner.Find. The spans are shared and must not be changed.
func (m *Memo) Find(ctx context.Context, text string) ([]Span, error) {
	if len(text) < 6 { // shorter than any value
		return nil, nil
	}
	k := memoKey{maphash.String(m.seeds[0], text), maphash.String(m.seeds[1], text), len(text)}
	if spans, ok := m.known.Get(k); ok {
		return spans, nil
	}
	spans, err := m.scanner.Find(ctx, text)
	if err == nil {
		m.known.Add(k, spans)
	}
	return spans, err
}
