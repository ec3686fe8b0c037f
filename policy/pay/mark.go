package pay

import (
	"bytes"
	"encoding/binary"
)

// Mark names a store of payments in the transactions of its gateways: bytes behind the call, which the contract does not read. Gateways that are paid at one address and have no common
// store tell by it whose transaction has moved a payment.
type Mark [32]byte

// markPrefix begins every mark, so that nothing else is taken for one.
const markPrefix = "bardo settlement"

// NewMark is the mark of a store with a number of its own.
func NewMark(store uint64) (m Mark) {
	copy(m[:], markPrefix)
	binary.BigEndian.PutUint64(m[len(m)-8:], store)
	return m
}

// ParseMark reads the mark at the end of a transaction's data; the zero mark if there is none.
func ParseMark(data []byte) (m Mark) {
	if n := len(data) - len(m); n >= 0 && bytes.HasPrefix(data[n:], []byte(markPrefix)) {
		copy(m[:], data[n:])
	}
	return m
}
