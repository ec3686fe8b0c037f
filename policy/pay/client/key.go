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

// Key is the private key of a wallet. It has no text form: nothing prints it.
type Key struct {
	key     *secp256k1.PrivateKey
	address pay.Address
}

var errKey = errors.New("a wallet's key is 32 bytes as hexadecimal digits, and not zero") // without the key

// ParseKey reads 64 hexadecimal digits, with or without 0x before them and space around them.
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

// Address is the wallet's.
func (k Key) Address() pay.Address { return k.address }

// String does not show the key.
func (Key) String() string { return "[key]" }

// GoString does not show the key.
func (Key) GoString() string { return "[key]" }

// sign signs a digest: r, s (the lower one) and v.
func (k Key) sign(digest pay.Word) []byte {
	compact := ecdsa.SignCompact(k.key, digest[:], false) // 27 and the parity, then r and s
	return append(append(make([]byte, 0, 65), compact[1:]...), compact[0])
}
