package typed

import (
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"bardo.money/gateway/policy/pay"
)

// signatureSize is that of an account without code: r, s and v.
const signatureSize = 65

// Recover is the account without code that signed a digest; ok is false where there is none, and for a signature with a high s, so that there is one signature
// for each digest. v is 0 and 1, or 27 and 28.
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
