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
		if cap(*b) < n || len(*b) != 0 {
			t.Fatalf("a buffer of %d for %d bytes", cap(*b), n)
		}
		Put(b)
		odd := New(1 + r.IntN(2<<20))
		Put(odd)
	}
}
