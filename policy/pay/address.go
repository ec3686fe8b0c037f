package pay

import (
	"encoding/hex"
	"errors"
	"strings"
)

// Address is a 20-byte address of an EVM chain.
type Address [20]byte

// Word is a 32-byte value: a nonce of an authorization, or a hash.
type Word [32]byte

var errHex = errors.New("not 0x and the expected number of hexadecimal digits")

// ParseAddress parses 0x and 40 hexadecimal digits of either case.
func ParseAddress(s string) (a Address, err error) { return a, parseHex(a[:], s) }

// ParseWord parses 0x and 64 hexadecimal digits of either case.
func ParseWord(s string) (w Word, err error) { return w, parseHex(w[:], s) }

func parseHex(into []byte, s string) error {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 2*len(into) {
		return errHex
	}
	if _, err := hex.Decode(into, []byte(digits)); err != nil {
		return errHex
	}
	return nil
}

// String returns the address in lower case.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// String returns the word in lower case.
func (w Word) String() string { return "0x" + hex.EncodeToString(w[:]) }
