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
	known   *lru.Cache[TextKey, []Span]
	clean   *lru.Cache[TextKey, struct{}]
}

// TextKey stands for a text: two hashes of it with seeds of this process, and its length.
type TextKey struct {
	a, b uint64
	n    int
}

// memoTexts is how many texts are remembered of which something is known, and how many that have nothing.
const memoTexts = 1 << 14

// NewMemo remembers what a scanner finds.
func NewMemo(s *Scanner) *Memo {
	known, _ := lru.New[TextKey, []Span](memoTexts) // fails for a size below 1 only
	clean, _ := lru.New[TextKey, struct{}](memoTexts)
	return &Memo{scanner: s, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: known, clean: clean}
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
		m.known.Add(k, spans)
	}
	return spans, err
}
