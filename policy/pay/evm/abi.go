package evm

import (
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// Encoded calls of a token and of a contract wallet. Each has few arguments of fixed types, so they are encoded by hand.

var (
	transferWithSignature = typed.Selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")
	transferWithParts     = typed.Selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)")
	balanceOf             = typed.Selector("balanceOf(address)")
	isValidSignature      = typed.Selector("isValidSignature(bytes32,bytes)")
)

// ecdsaSize is the size of a signature of an account without code: r, s and v.
const ecdsaSize = 65

// transferCall returns the call of the token that uses an EIP-3009 authorization. A signature of 65 bytes is passed as v, r and s, which every version of the token
// accepts.
func transferCall(a *pay.Authorization, signature []byte) []byte {
	if len(signature) == ecdsaSize {
		b := append([]byte(nil), transferWithParts...)
		b = append(b, typed.Fields(a)...)
		b = append(b, typed.Number(uint64(parity(signature))+27)...)
		return append(b, signature[:64]...)
	}
	b := append([]byte(nil), transferWithSignature...)
	b = append(b, typed.Fields(a)...)
	b = append(b, typed.Number(7*32)...)
	return appendBytes(b, signature)
}

// appendBytes appends a bytes argument: its length and content, padded to a whole number of words.
func appendBytes(b, of []byte) []byte {
	b = append(b, typed.Number(uint64(len(of)))...)
	b = append(b, of...)
	return append(b, make([]byte, (32-len(of)%32)%32)...)
}

func balanceCall(a pay.Address) []byte {
	return append(append([]byte(nil), balanceOf...), typed.Address(a)...)
}

func signatureCall(digest pay.Word, signature []byte) []byte {
	b := append(append([]byte(nil), isValidSignature...), digest[:]...)
	return appendBytes(append(b, typed.Number(2*32)...), signature)
}

// digest returns the digest that the payer of an authorization signs.
func (n *Node) digest(a *pay.Authorization) pay.Word {
	if a.UpTo {
		return typed.Permit(n.permits, n.terms.Asset.Address, a)
	}
	return typed.Transfer(n.domain, a)
}
