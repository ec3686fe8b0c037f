package evm

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/policy/pay"
)

// Scheme upto: a permit of Permit2, which x402's contract uses for its facilitator alone, who says how much is moved.

const (
	tokenPermissions = "TokenPermissions(address token,uint256 amount)"
	witnessOfUpTo    = "Witness(address to,address facilitator,uint256 validAfter)"
)

var (
	permitDomainType = crypto.Keccak256([]byte("EIP712Domain(string name,uint256 chainId,address verifyingContract)")) // it has no version
	permitType       = crypto.Keccak256([]byte("PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)" +
		tokenPermissions + witnessOfUpTo))
	permissionsType = crypto.Keccak256([]byte(tokenPermissions))
	witnessType     = crypto.Keccak256([]byte(witnessOfUpTo))

	settleUpTo  = selector("settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)")
	nonceBitmap = selector("nonceBitmap(address,uint256)")
	allowanceOf = selector("allowance(address,address)")
)

// permitDomain is the EIP-712 domain of Permit2 on a chain.
func permitDomain(chain uint64) pay.Word {
	return pay.Word(crypto.Keccak256(permitDomainType, crypto.Keccak256([]byte("Permit2")), number(chain), address(pay.Permit2)))
}

// permitHash is the EIP-712 hash of a permit's content.
func permitHash(token pay.Address, a *pay.Authorization) []byte {
	permitted := crypto.Keccak256(permissionsType, address(token), number(uint64(a.Value))) //nolint:gosec // an amount is not negative
	witness := crypto.Keccak256(witnessType, address(a.To), address(a.Facilitator), number(a.ValidAfter))
	return crypto.Keccak256(permitType, permitted, address(pay.UpToProxy), a.Nonce[:], number(a.ValidBefore), witness)
}

// settleCall is the call of x402's contract that moves an amount.
func settleCall(token pay.Address, t *pay.Transfer) []byte {
	const words = 10 // before the signature
	b := append([]byte(nil), settleUpTo...)
	b = append(b, address(token)...)
	b = append(b, number(uint64(t.Value))...) //nolint:gosec // an amount is not negative
	b = append(b, t.Nonce[:]...)
	b = append(b, number(t.ValidBefore)...)
	b = append(b, number(uint64(t.Amount))...) //nolint:gosec // as above
	b = append(b, address(t.From)...)
	b = append(b, address(t.To)...)
	b = append(b, address(t.Facilitator)...)
	b = append(b, number(t.ValidAfter)...)
	b = append(b, number(words*32)...)
	return appendBytes(b, t.Signature)
}

// nonceCall asks for the word of used nonces that a nonce has its bit in.
func nonceCall(a *pay.Authorization) []byte {
	var at pay.Word
	copy(at[1:], a.Nonce[:31])
	return append(append(append([]byte(nil), nonceBitmap...), address(a.From)...), at[:]...)
}

// nonceUsed reads the bit of a nonce out of its word.
func nonceUsed(a *pay.Authorization, word []byte) (bool, error) {
	if len(word) != 32 {
		return false, errAnswer
	}
	return new(big.Int).SetBytes(word).Bit(int(a.Nonce[31])) == 1, nil
}

func allowanceCall(owner pay.Address) []byte {
	return append(append(append([]byte(nil), allowanceOf...), address(owner)...), address(pay.Permit2)...)
}

// checkUpTo looks whether the chain has what scheme upto needs: x402's contract, and Permit2 for this chain. Where it has not, upto is not offered.
func (n *Node) checkUpTo(ctx context.Context) error {
	proxy, permit2 := common.Address(pay.UpToProxy), common.Address(pay.Permit2)
	code, err := n.eth.CodeAt(ctx, proxy, nil)
	if err != nil {
		return scrub(err)
	}
	domain, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &permit2, Data: selector("DOMAIN_SEPARATOR()")}, nil)
	if err := scrubUnlessRevert(err); err != nil {
		return err
	}
	n.upTo.Store(len(code) > 0 && len(domain) == 32 && pay.Word(domain) == n.permits)
	return nil
}

// UpTo implements pay.Chain.
func (n *Node) UpTo() (facilitator pay.Address, ok bool) { return pay.Address(n.from), n.upTo.Load() }

// checkPermit refuses permits that this account may not use, or that the chain cannot have used.
func (n *Node) checkPermit(p *pay.Payment) error {
	facilitator, ok := n.UpTo()
	if !ok {
		return p.Refuse(pay.ReasonScheme, "scheme upto is not taken here: its contract is not on the chain")
	}
	if p.Facilitator != facilitator {
		return p.Refuse(pay.ReasonFacilitator, "the witness's facilitator is not %s", facilitator)
	}
	return nil
}

// findSettle finds this account's transaction that used a permit: no other account can.
func (n *Node) findSettle(ctx context.Context, t *pay.Transfer, logs []types.Log) (hash pay.Word, ok bool, err error) {
	for i := range logs {
		tx, _, err := n.eth.TransactionByHash(ctx, logs[i].TxHash)
		if err != nil {
			return pay.Word{}, false, scrub(err)
		}
		if to := tx.To(); to != nil && *to == common.Address(pay.UpToProxy) && isSettle(t, tx.Data()) {
			return pay.Word(logs[i].TxHash), true, nil
		}
	}
	return pay.Word{}, false, nil
}

// isSettle reports whether the data of a call is the use of a permit.
func isSettle(t *pay.Transfer, data []byte) bool {
	at := func(word int) pay.Word { return pay.Word(data[4+32*word : 4+32*(word+1)]) }
	return len(data) > 4+10*32 && [4]byte(data) == [4]byte(settleUpTo) && at(2) == t.Nonce && at(5) == pay.Word(address(t.From))
}
