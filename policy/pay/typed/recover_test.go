package typed

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"bardo.money/gateway/policy/pay"
)

// TestPitfall3ADigestHasOneSignature: neither another length, nor another v, nor a high or zero s is accepted.
func TestPitfall3ADigestHasOneSignature(t *testing.T) {
	key := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32))
	digest := Keccak256([]byte("a message"))
	compact := ecdsa.SignCompact(key, digest[:], false)
	good := append(bytes.Clone(compact[1:]), compact[0])
	sum := Keccak256(key.PubKey().SerializeUncompressed()[1:])
	owner := pay.Address(sum[12:])
	order, err := hex.DecodeString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(s []byte) []byte) []byte { return change(bytes.Clone(good)) }
	put := func(s []byte) []byte {
		return with(func(b []byte) []byte { copy(b[32:64], s); return b })
	}
	for what, row := range map[string]struct {
		signature []byte
		is        string // the owner's, another's, or nobody's
	}{
		"as it is":         {good, "owner"},
		"v of 0 and 1":     {with(func(b []byte) []byte { b[64] -= 27; return b }), "owner"},
		"the other parity": {with(func(b []byte) []byte { b[64] = 27 + 28 - b[64]; return b }), "other"},
		"v above":          {with(func(b []byte) []byte { b[64] += 2; return b }), "nobody"},
		"v of 2":           {with(func(b []byte) []byte { b[64] = b[64] - 27 + 2; return b }), "nobody"},
		"v far above":      {with(func(b []byte) []byte { b[64] += 4; return b }), "nobody"},
		"a byte more":      {append(bytes.Clone(good), 0), "nobody"},
		"a byte less":      {good[:64], "nobody"},
		"nothing":          {nil, "nobody"},
		"s of zero":        {put(make([]byte, 32)), "nobody"},
		"s of the order":   {put(order), "nobody"},
		"s above the order, which is another s of the curve": {put(add(order, good[32:64])), "nobody"},
		"the twin": {with(func(b []byte) []byte {
			var s secp256k1.ModNScalar
			s.SetByteSlice(b[32:64])
			s.Negate()
			twin := s.Bytes()
			copy(b[32:64], twin[:])
			b[64] = 27 + 28 - b[64]
			return b
		}), "nobody"},
	} {
		is := "nobody"
		if who, ok := Recover(digest, row.signature); ok {
			is = map[bool]string{true: "owner", false: "other"}[who == owner]
		}
		if is != row.is {
			t.Errorf("%s: it is of %s, want %s", what, is, row.is)
		}
	}
}

// add returns the sum of two numbers of 256 bits, modulo 2^256.
func add(a, b []byte) []byte {
	out, carry := make([]byte, 32), 0
	for i := 31; i >= 0; i-- {
		n := int(a[i]) + int(b[i]) + carry
		out[i], carry = byte(n), n>>8
	}
	if carry > 0 {
		return bytes.Repeat([]byte{0xff}, 32)
	}
	return out
}
