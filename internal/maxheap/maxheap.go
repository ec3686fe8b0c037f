// Package maxheap finds the largest of many values whose sizes change, in logarithmic time per change. It knows neither what the values are nor the unit of
// their sizes.
package maxheap

import "container/heap"

// Heap holds values by their sizes. The zero value is empty. Not safe for concurrent use.
type Heap[T any] struct{ items items[T] }

// Item is a value with its size. The zero size is that of an item that is not in the heap. Value is set before the first Resize; an item belongs to one heap.
type Item[T any] struct {
	Value T
	size  int64
	index int // in Heap.items, if size > 0
}

// Size is the size that the last Resize set.
func (it *Item[T]) Size() int64 { return it.size }

// Resize sets an item's size. The item is added to the heap when its size becomes positive, and removed when it becomes zero or less. Nothing is
// allocated for an item, except by append.
func (h *Heap[T]) Resize(it *Item[T], size int64) {
	before := it.size
	it.size = max(size, 0)
	switch {
	case before > 0 && it.size > 0:
		heap.Fix(&h.items, it.index)
	case before > 0:
		heap.Remove(&h.items, it.index)
	case it.size > 0:
		heap.Push(&h.items, it)
	}
}

// Largest is an item of the largest size; nil if the heap is empty.
func (h *Heap[T]) Largest() *Item[T] {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

// Len is the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// items implements heap.Interface.
type items[T any] []*Item[T]

func (s items[T]) Len() int { return len(s) }

func (s items[T]) Less(i, j int) bool { return s[i].size > s[j].size }

func (s items[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *items[T]) Push(x any) {
	it, _ := x.(*Item[T])
	it.index = len(*s)
	*s = append(*s, it)
}

func (s *items[T]) Pop() any {
	last := len(*s) - 1
	it := (*s)[last]
	(*s)[last] = nil // for the garbage collector
	*s = (*s)[:last]
	return it
}
