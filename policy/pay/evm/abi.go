package evm

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/policy/pay"
)

// The calls of a token and of a contract wallet. Each has few arguments, of fixed types, so they are written by hand.

var errAnswer = errors.New("a contract answered something else than expected")

func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }

var (
	transferWithSignature = selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")
	transferWithParts     = selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)")
	authorizationState    = selector("authorizationState(address,bytes32)")
	balanceOf             = selector("balanceOf(address)")
	isValidSignature      = selector("isValidSignature(bytes32,bytes)")
)

func number(n uint64) []byte {
	var w pay.Word
	binary.BigEndian.PutUint64(w[24:], n)
	return w[:]
}

func address(a pay.Address) []byte {
	var w pay.Word
	copy(w[12:], a[:])
	return w[:]
}

// fields are an authorization's values, as calls and hashes have them.
func fields(a *pay.Authorization) (b []byte) {
	b = append(b, address(a.From)...)
	b = append(b, address(a.To)...)
	b = append(b, number(uint64(a.Value))...) //nolint:gosec // an amount is not negative
	b = append(b, number(a.ValidAfter)...)
	b = append(b, number(a.ValidBefore)...)
	return append(b, a.Nonce[:]...)
}

// ecdsaSize is the size of a signature of an account without code: r, s and v.
const ecdsaSize = 65

// transferCall is the call of the token that uses an EIP-3009 authorization. A signature of 65 bytes goes in parts, which every version of the token takes.
func transferCall(a *pay.Authorization, signature []byte) []byte {
	if len(signature) == ecdsaSize {
		b := append([]byte(nil), transferWithParts...)
		b = append(b, fields(a)...)
		b = append(b, number(uint64(parity(signature))+27)...)
		return append(b, signature[:64]...)
	}
	b := append([]byte(nil), transferWithSignature...)
	b = append(b, fields(a)...)
	b = append(b, number(7*32)...)
	return appendBytes(b, signature)
}

// appendBytes appends the length of some bytes, and them, to a whole number of words.
func appendBytes(b, of []byte) []byte {
	b = append(b, number(uint64(len(of)))...)
	b = append(b, of...)
	return append(b, make([]byte, (32-len(of)%32)%32)...)
}

func stateCall(a *pay.Authorization) []byte {
	return append(append(append([]byte(nil), authorizationState...), address(a.From)...), a.Nonce[:]...)
}

func balanceCall(a pay.Address) []byte {
	return append(append([]byte(nil), balanceOf...), address(a)...)
}

func signatureCall(digest pay.Word, signature []byte) []byte {
	b := append(append([]byte(nil), isValidSignature...), digest[:]...)
	return appendBytes(append(b, number(2*32)...), signature)
}

// isTrue reads a bool.
func isTrue(b []byte) (bool, error) {
	switch {
	case bytes.Equal(b, number(1)):
		return true, nil
	case bytes.Equal(b, number(0)):
		return false, nil
	}
	return false, errAnswer
}

var (
	domainType   = crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	transferType = crypto.Keccak256([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"))
)

// domainOf is the EIP-712 domain of the terms' token.
func domainOf(t *pay.Terms) pay.Word {
	return pay.Word(crypto.Keccak256(domainType, crypto.Keccak256([]byte(t.Asset.Name)), crypto.Keccak256([]byte(t.Asset.Version)), number(t.Network.ID), address(t.Asset.Address)))
}

// digest is what the payer of an authorization signs.
func (n *Node) digest(a *pay.Authorization) pay.Word {
	if a.UpTo {
		return typed(n.permits, permitHash(n.terms.Asset.Address, a))
	}
	return typed(n.domain, crypto.Keccak256(transferType, fields(a)))
}

func typed(domain pay.Word, content []byte) pay.Word {
	return pay.Word(crypto.Keccak256([]byte{0x19, 0x01}, domain[:], content))
}
