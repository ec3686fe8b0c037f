// Package buffers pools byte buffers of bodies and messages, by size. Safe for concurrent use.
package buffers

import (
	"math/bits"
	"sync"
)

// The sizes of pooled buffers. The smallest is that of a short request, which is held while its answer streams.
const (
	minPooled   = 1 << 10
	maxPooled   = 32 << 20
	pooledSizes = 16 // powers of two
	rounded     = 1 << 20
)

// pools hold buffers of at least minPooled << i bytes, and less than twice that.
var pools [pooledSizes]sync.Pool

// Get returns an empty buffer with room for n bytes, and for at most twice that many (or minPooled). Small ones have one of few sizes; a large one that
// no pool has is new memory of exactly n bytes.
func Get(n int) *[]byte {
	n = max(n, minPooled)
	down, up := Log2(n)-Log2(minPooled), Log2(2*n-1)-Log2(minPooled) // of the powers of two around n
	for i := down; i <= up && i < pooledSizes; i++ {
		b, ok := pools[i].Get().(*[]byte)
		if ok && cap(*b) >= n && cap(*b) <= 2*n {
			return b
		}
		if ok {
			pools[i].Put(b)
		}
	}
	if n <= rounded {
		n = minPooled << up
	}
	return New(n)
}

// New returns a new empty buffer of n bytes, without using the pools.
func New(n int) *[]byte {
	b := make([]byte, 0, n)
	return &b
}

// Put returns a buffer to its pool, unless its size is not pooled. The caller must not use it any more. It is garbage-collected if it is not needed
// for a while.
func Put(b *[]byte) {
	n := cap(*b)
	if n < minPooled || n > maxPooled {
		return
	}
	*b = (*b)[:0]
	pools[Log2(n)-Log2(minPooled)].Put(b)
}

// Log2 returns the logarithm of a positive number, rounded down.
func Log2(n int) int { return bits.Len64(uint64(n)) - 1 } //nolint:gosec // a size is positive
