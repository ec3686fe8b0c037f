// Package buffers keeps byte buffers of bodies and messages for later use, by size. Safe for concurrent use.
package buffers

import (
	"math/bits"
	"sync"
)

// The sizes of buffers that are kept for later requests. The smallest is that of a short request, which is held as long as its answer streams.
const (
	minPooled   = 1 << 10
	maxPooled   = 32 << 20
	pooledSizes = 16 // powers of two
	rounded     = 1 << 20
)

// pools hold buffers of minPooled << i bytes, and less than twice that.
var pools [pooledSizes]sync.Pool

// Get returns an empty buffer with room for n bytes. Small ones are made of few sizes; a large one is new memory for which no other has
// a use, so it is as long as it has to be.
func Get(n int) *[]byte {
	n = max(n, minPooled)
	i := Log2(2*n-1) - Log2(minPooled) // the next power of two
	if i < pooledSizes {
		if b, ok := pools[i].Get().(*[]byte); ok {
			return b
		}
	}
	if n <= rounded {
		n = minPooled << i
	}
	return New(n)
}

// New returns an empty buffer of n bytes, whichever are kept.
func New(n int) *[]byte {
	b := make([]byte, 0, n)
	return &b
}

// Put keeps a buffer for later, unless it is too large or too small for that. Nobody may use it any more. It is forgotten when nothing has needed it
// for a while.
func Put(b *[]byte) {
	n := cap(*b)
	if n < minPooled || n > maxPooled {
		return
	}
	*b = (*b)[:0]
	pools[Log2(n)-Log2(minPooled)].Put(b)
}

// Log2 is that of a positive number, rounded down.
func Log2(n int) int { return bits.Len64(uint64(n)) - 1 } //nolint:gosec // a size is positive
