package evm

import (
	"context"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// Scheme upto: a permit of Permit2, which x402's contract uses only for the permit's facilitator. The facilitator sets the amount.

var (
	settleUpTo  = typed.Selector("settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)")
	allowanceOf = typed.Selector("allowance(address,address)")
)

// settleCall returns the call of x402's contract that moves an amount.
func settleCall(token pay.Address, t *pay.Transfer) []byte {
	const words = 10 // before the signature
	b := append([]byte(nil), settleUpTo...)
	b = append(b, typed.Address(token)...)
	b = append(b, typed.Number(uint64(t.Value))...) //nolint:gosec // an amount is not negative
	b = append(b, t.Nonce[:]...)
	b = append(b, typed.Number(t.ValidBefore)...)
	b = append(b, typed.Number(uint64(t.Amount))...) //nolint:gosec // as above
	b = append(b, typed.Address(t.From)...)
	b = append(b, typed.Address(t.To)...)
	b = append(b, typed.Address(t.Facilitator)...)
	b = append(b, typed.Number(t.ValidAfter)...)
	b = append(b, typed.Number(words*32)...)
	return appendBytes(b, t.Signature)
}

func allowanceCall(owner pay.Address) []byte {
	return append(append(append([]byte(nil), allowanceOf...), typed.Address(owner)...), typed.Address(pay.Permit2)...)
}

// checkUpTo checks whether the chain has x402's contract, and Permit2 with this chain's domain. Without them, upto is not offered.
func (n *Node) checkUpTo(ctx context.Context) error {
	proxy, permit2 := common.Address(pay.UpToProxy), common.Address(pay.Permit2)
	code, err := n.eth.CodeAt(ctx, proxy, nil)
	if err != nil {
		return scrub(err)
	}
	domain, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &permit2, Data: typed.Selector("DOMAIN_SEPARATOR()")}, nil)
	if err := scrubUnlessRevert(err); err != nil {
		return err
	}
	n.upTo.Store(len(code) > 0 && len(domain) == 32 && pay.Word(domain) == n.permits)
	return nil
}

// UpTo implements pay.Chain.
func (n *Node) UpTo() (facilitator pay.Address, ok bool) {
	return pay.Address(n.from), n.key != nil && n.upTo.Load()
}

// checkPermit refuses permits that this account may not use, and all permits if the chain lacks the contracts.
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

// findSettle finds the transaction that used a permit, which only this account can send.
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

// isSettle reports whether a call uses a permit.
func isSettle(t *pay.Transfer, data []byte) bool {
	at := func(word int) pay.Word { return pay.Word(data[4+32*word : 4+32*(word+1)]) }
	return len(data) > 4+10*32 && [4]byte(data) == [4]byte(settleUpTo) && at(2) == t.Nonce && at(5) == pay.Word(typed.Address(t.From))
}
