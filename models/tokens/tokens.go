// Package tokens counts the tokens of texts as OpenAI's models do, with the vocabulary o200k. The vocabulary is built at its first use, which takes
// about 0.1 s and 20 MB. It does not know which requests are counted.
package tokens

import (
	"container/heap"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// size is the number of tokens that stand for text.
const size = 199_998

// ranks maps tokens to their order of merging.
var ranks = sync.OnceValue(func() map[string]int32 {
	c := codec.NewO200kBase()
	all := make(map[string]int32, size)
	for i := range size {
		if piece, err := c.Decode([]uint{uint(i)}); err == nil { // all exist: a test counts them
			all[piece] = int32(i)
		}
	}
	return all
})

// Uses reports whether an OpenAI model has this vocabulary: those since gpt-4o.
func Uses(model string) bool {
	model = strings.TrimPrefix(model[strings.LastIndexByte(model, '/')+1:], "ft:")
	for _, prefix := range []string{"gpt-3", "gpt-4", "chatgpt-4", "gpt-oss"} {
		rest, ok := strings.CutPrefix(model, prefix)
		switch {
		case !ok:
		case prefix == "gpt-4" || prefix == "chatgpt-4":
			return strings.HasPrefix(rest, "o") || strings.HasPrefix(rest, ".")
		default:
			return prefix == "gpt-oss"
		}
	}
	return strings.HasPrefix(model, "gpt-") || strings.HasPrefix(model, "chatgpt-") ||
		len(model) > 1 && model[0] == 'o' && model[1] >= '0' && model[1] <= '9'
}

// families are the models whose vocabulary OpenAI has published as o200k, by the beginning of their names.
var families = []string{"gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "o1", "o3", "o4-mini", "gpt-oss", "ft:gpt-4o"}

// Families returns the beginnings of the names of the models that Published is true for.
func Families() []string { return slices.Clone(families) }

// Published reports whether OpenAI has published that a model has this vocabulary, so that Encode returns the tokens that it reads. Uses also includes models
// that most likely have it.
func Published(model string) bool {
	name := model[strings.LastIndexByte(model, '/')+1:]
	if from := strings.TrimSuffix(model, name); from != "" && from != "openai/" && !strings.HasSuffix(from, "/openai/") {
		return false
	}
	return slices.ContainsFunc(families, func(family string) bool {
		rest, ok := strings.CutPrefix(name, family)
		return ok && (rest == "" || strings.ContainsRune("-.:", rune(rest[0])))
	})
}

// Encode returns the tokens of a text and their bytes, as Count counts them.
func Encode(text string) (ids []int32, pieces []string) {
	each(text, func(id int32, piece string) { ids, pieces = append(ids, id), append(pieces, piece) })
	return ids, pieces
}

// Count returns the number of tokens of a text; special tokens in it count as text. Safe for concurrent use. It takes about 1 ms per 10 kB.
func Count(text string) (n int) {
	each(text, func(int32, string) { n++ })
	return n
}

// each calls f with each token and its bytes.
func each(text string, f func(int32, string)) {
	vocabulary := ranks()
	for text != "" {
		end := cut(text)
		if id, ok := vocabulary[text[:end]]; ok {
			f(id, text[:end])
		} else {
			merge(vocabulary, text[:end], f)
		}
		text = text[end:]
	}
}

// part is a piece of a text during merging, in a linked list.
type part struct {
	begin, end int
	prev, next int // -1: none
	gone       bool
}

// pair is two adjacent parts that may be merged.
type pair struct {
	rank        int32
	left, right int
	end         int // of the right one, when the pair was added
}

// pairs is a heap, ordered by rank, then from left to right.
type pairs []pair

// Len implements heap.Interface.
func (p *pairs) Len() int { return len(*p) }

// Less implements heap.Interface.
func (p *pairs) Less(i, j int) bool {
	a, b := (*p)[i], (*p)[j]
	return a.rank < b.rank || a.rank == b.rank && a.left < b.left
}

// Swap implements heap.Interface.
func (p *pairs) Swap(i, j int) { (*p)[i], (*p)[j] = (*p)[j], (*p)[i] }

// Push implements heap.Interface.
func (p *pairs) Push(x any) { *p = append(*p, x.(pair)) } //nolint:forcetypeassert // only pairs are pushed

// Pop implements heap.Interface.
func (p *pairs) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// merge merges the bytes of a piece, the pair of the lowest rank first, until no pair is a token. It takes n log n steps.
func merge(vocabulary map[string]int32, piece string, f func(int32, string)) {
	parts := make([]part, len(piece))
	for i := range parts {
		parts[i] = part{begin: i, end: i + 1, prev: i - 1, next: i + 1}
	}
	parts[len(parts)-1].next = -1
	var queue pairs
	offer := func(left int) {
		if left < 0 || parts[left].next < 0 {
			return
		}
		right := parts[left].next
		if rank, ok := vocabulary[piece[parts[left].begin:parts[right].end]]; ok {
			heap.Push(&queue, pair{rank, left, right, parts[right].end})
		}
	}
	for i := range parts {
		offer(i)
	}
	for len(queue) > 0 {
		p := heap.Pop(&queue).(pair) //nolint:forcetypeassert // it holds nothing else
		if parts[p.left].gone || parts[p.right].gone || parts[p.left].next != p.right || parts[p.right].end != p.end {
			continue // one of the two was merged in the meantime
		}
		if rank, ok := vocabulary[piece[parts[p.left].begin:p.end]]; !ok || rank != p.rank {
			continue
		}
		parts[p.left].end, parts[p.left].next, parts[p.right].gone = p.end, parts[p.right].next, true
		if next := parts[p.left].next; next >= 0 {
			parts[next].prev = p.left
		}
		offer(p.left)
		offer(parts[p.left].prev)
	}
	for i := 0; i >= 0; i = parts[i].next {
		id, ok := vocabulary[piece[parts[i].begin:parts[i].end]]
		if !ok {
			id = math.MaxInt32 // single bytes are always tokens
		}
		f(id, piece[parts[i].begin:parts[i].end])
	}
}
