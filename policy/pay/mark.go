package pay

import (
	"bytes"
	"encoding/binary"
)

// Mark identifies a store of payments in the transactions of its gateways: bytes after the call data, which the contract ignores. Gateways that are paid at one
// address, but share no store, see by the mark whose transaction moved a payment.
type Mark [32]byte

// markPrefix is the prefix of every mark, so that no other data is parsed as one.
const markPrefix = "bardo settlement"

// NewMark returns the mark of the store with a number.
func NewMark(store uint64) (m Mark) {
	copy(m[:], markPrefix)
	binary.BigEndian.PutUint64(m[len(m)-8:], store)
	return m
}

// ParseMark returns the mark at the end of a transaction's data; the zero mark if there is none.
func ParseMark(data []byte) (m Mark) {
	if n := len(data) - len(m); n >= 0 && bytes.HasPrefix(data[n:], []byte(markPrefix)) {
		copy(m[:], data[n:])
	}
	return m
}
