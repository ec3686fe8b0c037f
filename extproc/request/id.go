package request

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// NewID returns an unguessable request id: 40 bits of the time, in units of 16 ms, and 80 random bits. Ids of the same time are adjacent in the
// ledger's indexes, so that a commit of many requests changes few pages.
func NewID(now time.Time) string {
	const timeBytes = 5
	var b [15]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMicro())>>14<<(64-8*timeBytes))
	_, _ = rand.Read(b[timeBytes:]) // never fails (crypto/rand)
	var id [len("req_") + len(b)*8/5]byte
	return string(idEncoding.AppendEncode(append(id[:0], "req_"...), b[:]))
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
