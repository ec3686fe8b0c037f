package upload

import (
	"math/bits"
	"sync"
)

// The sizes of buffers that are kept for later requests.
const (
	minPooled   = 64 << 10
	maxPooled   = 32 << 20
	pooledSizes = 10 // powers of two
	rounded     = 1 << 20
)

// pools hold buffers of minPooled << i bytes, and less than twice that.
var pools [pooledSizes]sync.Pool

// GetBuffer returns an empty buffer with room for n bytes. Small ones are made of few sizes; a large one is new memory for which no other has
// a use, so it is as long as it has to be.
func GetBuffer(n int) *[]byte {
	n = max(n, minPooled)
	i := log2(2*n-1) - log2(minPooled) // the next power of two
	if i < pooledSizes {
		if b, ok := pools[i].Get().(*[]byte); ok {
			return b
		}
	}
	if n <= rounded {
		n = minPooled << i
	}
	return newBuffer(n)
}

func newBuffer(n int) *[]byte {
	b := make([]byte, 0, n)
	return &b
}

// PutBuffer keeps a buffer for later, unless it is too large for that. It is forgotten when no request has needed it for a while.
func PutBuffer(b *[]byte) {
	n := cap(*b)
	if n < minPooled || n > maxPooled {
		return
	}
	*b = (*b)[:0]
	pools[log2(n)-log2(minPooled)].Put(b)
}

// log2 is rounded down.
func log2(n int) int { return bits.Len64(uint64(n)) - 1 } //nolint:gosec // a size is positive
