package buffers

import (
	"math/rand/v2"
	"testing"
)

// TestABufferHasTheRoomThatWasAskedFor, whichever buffers are pooled.
func TestABufferHasTheRoomThatWasAskedFor(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 1 << r.IntN(26)
		n += r.IntN(n)
		b := Get(n)
		if cap(*b) < n || cap(*b) > max(2*n, minPooled) || len(*b) != 0 {
			t.Fatalf("a buffer of %d for %d bytes", cap(*b), n)
		}
		Put(b)
		odd := New(1 + r.IntN(32<<20))
		Put(odd)
	}
}

// TestALargeBufferIsReused by the next body of its size, also if that is no power of two.
func TestALargeBufferIsReused(t *testing.T) {
	const n = 5<<20 + 7
	reused := false
	for range 10 { // a pool may drop what is put into it, and does at random under the race detector
		b := Get(n)
		first := &(*b)[:1][0]
		Put(b)
		c := Get(n)
		reused = reused || first == &(*c)[:1][0]
	}
	if !reused {
		t.Error("ten bodies in a row have new memory each")
	}
}
