package client

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// Key is the private key of a wallet. It is never printed.
type Key struct {
	key     *secp256k1.PrivateKey
	address pay.Address
}

var errKey = errors.New("a wallet's key is 32 bytes as hexadecimal digits, and not zero") // without the key

// ParseKey parses 64 hexadecimal digits, with optional 0x and surrounding space.
func ParseKey(text string) (Key, error) {
	b, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	if err != nil || len(b) != 32 {
		return Key{}, errKey
	}
	var n secp256k1.ModNScalar
	if overflow := n.SetByteSlice(b); overflow || n.IsZero() {
		return Key{}, errKey
	}
	k := secp256k1.NewPrivateKey(&n)
	sum := typed.Keccak256(k.PubKey().SerializeUncompressed()[1:])
	return Key{k, pay.Address(sum[12:])}, nil
}

// Address returns the wallet's address.
func (k Key) Address() pay.Address { return k.address }

// String implements fmt.Stringer without showing the key.
func (Key) String() string { return "[key]" }

// GoString implements fmt.GoStringer without showing the key.
func (Key) GoString() string { return "[key]" }

// sign returns the signature of a digest: r, low s and v.
func (k Key) sign(digest pay.Word) []byte {
	compact := ecdsa.SignCompact(k.key, digest[:], false) // 27 plus the parity, then r and s
	return append(append(make([]byte, 0, 65), compact[1:]...), compact[0])
}
