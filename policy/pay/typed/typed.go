// Package typed encodes the data that a payer signs (EIP-712), and the calls that query whether an authorization was used. It has no keys, and calls no node.
package typed

import (
	"encoding/binary"
	"errors"
	"math/big"

	"golang.org/x/crypto/sha3"

	"bardo.money/gateway/policy/pay"
)

const (
	domainType       = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
	permitDomainType = "EIP712Domain(string name,uint256 chainId,address verifyingContract)" // that of Permit2 has no version
	transferType     = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
	tokenPermissions = "TokenPermissions(address token,uint256 amount)"
	witness          = "Witness(address to,address facilitator,uint256 validAfter)"
	permitType       = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)" + tokenPermissions + witness
)

// Keccak256 returns the hash of EVM chains over the concatenated parts.
func Keccak256(parts ...[]byte) (sum pay.Word) {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		_, _ = h.Write(p) // never fails
	}
	h.Sum(sum[:0])
	return sum
}

func hashOf(text string) []byte {
	sum := Keccak256([]byte(text))
	return sum[:]
}

// Number returns the ABI encoding of a number.
func Number(n uint64) []byte {
	var w pay.Word
	binary.BigEndian.PutUint64(w[24:], n)
	return w[:]
}

// Address returns the ABI encoding of an address.
func Address(a pay.Address) []byte {
	var w pay.Word
	copy(w[12:], a[:])
	return w[:]
}

// Fields returns the ABI encoding of an EIP-3009 authorization.
func Fields(a *pay.Authorization) (b []byte) {
	b = append(b, Address(a.From)...)
	b = append(b, Address(a.To)...)
	b = append(b, Number(uint64(a.Value))...) //nolint:gosec // an amount is not negative
	b = append(b, Number(a.ValidAfter)...)
	b = append(b, Number(a.ValidBefore)...)
	return append(b, a.Nonce[:]...)
}

// Domain returns the EIP-712 domain separator of a token on a chain.
func Domain(token pay.Token, chain uint64) pay.Word {
	return Keccak256(hashOf(domainType), hashOf(token.Name), hashOf(token.Version), Number(chain), Address(token.Address))
}

// PermitDomain returns the domain separator of Permit2 on a chain.
func PermitDomain(chain uint64) pay.Word {
	return Keccak256(hashOf(permitDomainType), hashOf("Permit2"), Number(chain), Address(pay.Permit2))
}

// Transfer returns the digest that the payer of an EIP-3009 authorization signs; domain is the token's.
func Transfer(domain pay.Word, a *pay.Authorization) pay.Word {
	return sign(domain, Keccak256(hashOf(transferType), Fields(a)))
}

// Permit returns the digest that the payer of a permit signs; domain is that of Permit2.
func Permit(domain pay.Word, token pay.Address, a *pay.Authorization) pay.Word {
	permitted := Keccak256(hashOf(tokenPermissions), Address(token), Number(uint64(a.Value))) //nolint:gosec // an amount is not negative
	to := Keccak256(hashOf(witness), Address(a.To), Address(a.Facilitator), Number(a.ValidAfter))
	return sign(domain, Keccak256(hashOf(permitType), permitted[:], Address(pay.UpToProxy), a.Nonce[:], Number(a.ValidBefore), to[:]))
}

// Digest returns the digest that the payer of an authorization of a token signs.
func Digest(token pay.Token, chain uint64, a *pay.Authorization) pay.Word {
	if a.UpTo {
		return Permit(PermitDomain(chain), token.Address, a)
	}
	return Transfer(Domain(token, chain), a)
}

func sign(domain, content pay.Word) pay.Word {
	return Keccak256([]byte{0x19, 0x01}, domain[:], content[:])
}

// Selector returns the selector of a function: the first bytes of a call's data.
func Selector(signature string) []byte { return hashOf(signature)[:4] }

// State returns the contract and the call data that query whether an authorization of a token was used or cancelled.
func State(token pay.Address, a *pay.Authorization) (to pay.Address, data []byte) {
	if a.UpTo {
		var at pay.Word // index of the nonce's word in the bitmap: its first 248 bits
		copy(at[1:], a.Nonce[:31])
		return pay.Permit2, append(append(Selector("nonceBitmap(address,uint256)"), Address(a.From)...), at[:]...)
	}
	return token, append(append(Selector("authorizationState(address,bytes32)"), Address(a.From)...), a.Nonce[:]...)
}

var errAnswer = errors.New("a contract answered something else than expected")

// Used parses the result of State's call.
func Used(a *pay.Authorization, answer []byte) (bool, error) {
	if len(answer) != len(pay.Word{}) {
		return false, errAnswer
	}
	n := new(big.Int).SetBytes(answer)
	if a.UpTo {
		return n.Bit(int(a.Nonce[31])) == 1, nil
	}
	if !n.IsUint64() || n.Uint64() > 1 {
		return false, errAnswer
	}
	return n.Uint64() == 1, nil
}
