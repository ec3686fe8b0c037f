package maxheap_test

import (
	"math/rand/v2"
	"testing"

	"bardo.money/gateway/internal/maxheap"
)

func TestTheZeroHeapIsEmpty(t *testing.T) {
	var h maxheap.Heap[string]
	if it := h.Largest(); it != nil || h.Len() != 0 {
		t.Errorf("the largest of none is %v, of %d", it, h.Len())
	}
	var it maxheap.Item[string]
	if h.Resize(&it, 0); h.Len() != 0 {
		t.Error("an item without a size is in the heap")
	}
}

func TestAnItemIsInTheHeapWhileItHasASize(t *testing.T) {
	var h maxheap.Heap[string]
	a, b := maxheap.Item[string]{Value: "a"}, maxheap.Item[string]{Value: "b"}
	for _, step := range []struct {
		item    *maxheap.Item[string]
		size    int64
		largest string
		length  int
	}{
		{&a, 1, "a", 1}, {&b, 2, "b", 2}, {&a, 3, "a", 2}, {&a, 3, "a", 2}, {&a, 0, "b", 1}, {&a, 0, "b", 1}, {&a, -1, "b", 1}, {&a, 5, "a", 2}, {&a, -1, "b", 1}, {&b, 0, "", 0},
	} {
		h.Resize(step.item, step.size)
		got := ""
		if it := h.Largest(); it != nil {
			got = it.Value
		}
		if got != step.largest || h.Len() != step.length || step.item.Size() != max(step.size, 0) {
			t.Errorf("%s has size %d; %q is the largest of %d, want %q of %d", step.item.Value, step.item.Size(), got, h.Len(), step.largest, step.length)
		}
	}
}

// TestLargestIsAMaximum compares random changes with a linear search.
func TestLargestIsAMaximum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h maxheap.Heap[int]
	var items [50]maxheap.Item[int]
	for range 20_000 {
		h.Resize(&items[rng.IntN(len(items))], max(0, rng.Int64N(100)-20))
		var largest int64
		held := 0
		for i := range items {
			largest = max(largest, items[i].Size())
			if items[i].Size() > 0 {
				held++
			}
		}
		var got int64
		if it := h.Largest(); it != nil {
			got = it.Size()
		}
		if got != largest || h.Len() != held {
			t.Fatalf("the largest of %d has size %d, want %d of %d", h.Len(), got, largest, held)
		}
	}
}

func TestResizingDoesNotAllocate(t *testing.T) {
	var h maxheap.Heap[int]
	var items [100]maxheap.Item[int]
	fill := func() {
		for i := range items {
			h.Resize(&items[i], int64(i)+1)
		}
		for i := range items {
			h.Resize(&items[i], 0)
		}
	}
	fill()
	if n := testing.AllocsPerRun(10, fill); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
