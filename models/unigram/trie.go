package unigram

import (
	"bytes"
	"cmp"
	"slices"
)

// trie finds the pieces that a text starts with. The children of a node are adjacent, in the order of their bytes.
type trie struct {
	first []int32 // index of a node's first child
	count []uint16
	bytes []byte  // byte of a node
	ids   []int32 // id of the piece that ends at a node, or -1
}

// keyed is a piece and its id.
type keyed struct {
	piece string
	id    int32
}

// span is the pieces below a node: those of sorted[begin:end], from byte depth on.
type span struct{ begin, end, depth int }

// newTrie builds a trie of pieces, level by level. Of equal pieces, the last one counts.
func newTrie(pieces []keyed) *trie {
	sorted := slices.Clone(pieces)
	slices.SortStableFunc(sorted, func(a, b keyed) int { return cmp.Compare(a.piece, b.piece) })
	t := new(trie)
	t.add(0)
	for node, queue := 0, []span{{0, len(sorted), 0}}; node < len(queue); node++ {
		s := queue[node]
		i := s.begin
		for ; i < s.end && len(sorted[i].piece) == s.depth; i++ {
			t.ids[node] = sorted[i].id
		}
		t.first[node] = int32(len(t.bytes)) //nolint:gosec // a vocabulary has fewer nodes
		for i < s.end {
			b, begin := sorted[i].piece[s.depth], i
			for i < s.end && sorted[i].piece[s.depth] == b {
				i++
			}
			t.add(b)
			t.count[node]++
			queue = append(queue, span{begin, i, s.depth + 1})
		}
	}
	return t
}

func (t *trie) add(b byte) {
	t.first, t.count = append(t.first, 0), append(t.count, 0)
	t.bytes, t.ids = append(t.bytes, b), append(t.ids, -1)
}

// child returns the child of a node for a byte; -1 if there is none.
func (t *trie) child(node int32, b byte) int32 {
	first := t.first[node]
	i := bytes.IndexByte(t.bytes[first:first+int32(t.count[node])], b)
	if i < 0 {
		return -1
	}
	return first + int32(i) //nolint:gosec // at most 256
}
