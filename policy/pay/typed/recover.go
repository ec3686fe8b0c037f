package typed

import (
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"bardo.money/gateway/policy/pay"
)

// signatureSize is the size of a signature of an account without code: r, s and v.
const signatureSize = 65

// Recover returns the account that signed a digest; ok is false for an invalid signature, and for one with a high s, so that there is one signature per digest.
// v is 0 or 1, or 27 or 28.
func Recover(digest pay.Word, signature []byte) (who pay.Address, ok bool) {
	if len(signature) != signatureSize {
		return who, false
	}
	v := signature[64]
	if v >= 27 {
		v -= 27
	}
	var s secp256k1.ModNScalar
	if overflow := s.SetByteSlice(signature[32:64]); v > 1 || overflow || s.IsZero() || s.IsOverHalfOrder() {
		return who, false
	}
	compact := append([]byte{27 + v}, signature[:64]...)
	key, _, err := ecdsa.RecoverCompact(compact, digest[:])
	if err != nil {
		return who, false
	}
	sum := Keccak256(key.SerializeUncompressed()[1:])
	return pay.Address(sum[12:]), true
}
