package injection

import (
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Key identifies a text: two hashes with seeds of this process, and its length.
type Key struct {
	a, b uint64
	n    int
}

// memo caches findings, so that only new texts of a conversation are examined. It stores hashes and findings, no texts.
type memo struct {
	seeds [2]maphash.Seed
	cache *lru.Cache[memoKey, Finding]
}

type memoKey struct {
	Key

	tag uint64 // hash of the classifier's tag
}

// memoTexts is the number of cached texts, and of cached windows: about 2 MB each.
const memoTexts = 1 << 14

func newMemo() memo {
	known, _ := lru.New[memoKey, Finding](memoTexts) // fails for a size below 1 only
	return memo{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, cache: known}
}

func (m *memo) get(k Key, tag string) (Finding, bool) { return m.cache.Get(m.keyWith(k, tag)) }

func (m *memo) put(k Key, tag string, f Finding) { m.cache.Add(m.keyWith(k, tag), f) }

func (m *memo) keyWith(k Key, tag string) memoKey { return memoKey{k, maphash.String(m.seeds[0], tag)} }

// KeyOf returns the key of a text.
func (d *Detector) KeyOf(text []byte) Key {
	return Key{maphash.Bytes(d.memo.seeds[0], text), maphash.Bytes(d.memo.seeds[1], text), len(text)}
}

// Key returns the key of a sequence of texts. It does not retain them.
func (d *Detector) Key(parts func(yield func([]byte) bool)) Key {
	var a, b maphash.Hash
	a.SetSeed(d.memo.seeds[0])
	b.SetSeed(d.memo.seeds[1])
	k := Key{}
	for p := range parts {
		for _, h := range [...]*maphash.Hash{&a, &b} {
			_, _ = h.Write(p)     // never fails
			_ = h.WriteByte('\n') // the same
		}
		k.n += len(p) + 1
	}
	k.a, k.b = a.Sum64(), b.Sum64()
	return k
}
