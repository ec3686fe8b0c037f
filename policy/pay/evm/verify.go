package evm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"bardo.money/gateway/policy/pay"
)

// Signed implements pay.Chain: only signatures with a low s count, so that there is one for each authorization.
func (n *Node) Signed(p *pay.Payment) bool {
	s := p.Signature
	if len(s) != ecdsaSize {
		return false
	}
	v := parity(s)
	if v > 1 || !crypto.ValidateSignatureValues(v, new(big.Int).SetBytes(s[:32]), new(big.Int).SetBytes(s[32:64]), true) {
		return false
	}
	d := digest(n.domain, &p.Authorization)
	key, err := crypto.SigToPub(d[:], append(append([]byte(nil), s[:64]...), v))
	return err == nil && pay.Address(crypto.PubkeyToAddress(*key)) == p.From
}

// parity is a signature's v, which is written as 0 and 1 or as 27 and 28.
func parity(signature []byte) byte {
	v := signature[64]
	if v >= 27 {
		v -= 27
	}
	return v
}

// Verify implements pay.Chain. The signature is that of an account without code, or else one that the payer's contract confirms.
func (n *Node) Verify(ctx context.Context, p *pay.Payment) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := n.Check(ctx); err != nil {
		return err
	}
	if !n.Signed(p) {
		if err := n.askWallet(ctx, p); err != nil {
			return err
		}
	}
	return n.tryTransfer(ctx, p)
}

var errSignature = &pay.Refusal{Reason: pay.ReasonSignature, Detail: "the signature is not the payer's, for this token and chain, with a low s"}

// askWallet asks the payer's contract whether the signature is its own. The contract is a stranger's: it may use little gas, and return one word.
func (n *Node) askWallet(ctx context.Context, p *pay.Payment) error {
	at := common.Address(p.From)
	code, err := n.eth.CodeAt(ctx, at, nil)
	if err != nil {
		return scrub(err)
	}
	if len(code) == 0 {
		return errSignature
	}
	d := digest(n.domain, &p.Authorization)
	out, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &at, Gas: walletGas, Data: signatureCall(d, p.Signature)}, nil)
	if _, ok := errors.AsType[rpc.Error](err); ok { // it reverted, or ran out of gas
		return errSignature
	}
	if err != nil {
		return scrub(err)
	}
	if len(out) != 32 || pay.Word(out) != yes {
		return errSignature
	}
	return nil
}

// yes is a contract's confirmation of a signature: the selector of the call, and nothing behind it.
var yes = func() (w pay.Word) { copy(w[:], isValidSignature); return w }()

// tryTransfer asks in one message for the payer's balance, the nonce, and what the transfer would do.
func (n *Node) tryTransfer(ctx context.Context, p *pay.Payment) error {
	var used, balance, transfer hexutil.Bytes
	batch := []rpc.BatchElem{
		n.call(stateCall(&p.Authorization), &used), n.call(balanceCall(p.From), &balance),
		n.call(transferCall(&p.Authorization, p.Signature), &transfer),
	}
	if err := n.rpc.BatchCallContext(ctx, batch); err != nil {
		return scrub(err)
	}
	for _, e := range batch[:2] {
		if e.Error != nil {
			return scrub(e.Error)
		}
	}
	is, err := isTrue(used)
	if err != nil {
		return err
	}
	if is {
		return &pay.Refusal{Reason: pay.ReasonNonceUsed, Detail: "the authorization was used or cancelled"}
	}
	if has := new(big.Int).SetBytes(balance); len(balance) != 32 || has.Cmp(big.NewInt(int64(p.Value))) < 0 {
		return &pay.Refusal{Reason: pay.ReasonFunds, Detail: "the payer's balance is smaller than the authorization"}
	}
	if batch[2].Error != nil {
		err := revertOf(batch[2].Error)
		r, ok := errors.AsType[*pay.Revert](err)
		if !ok {
			return err
		}
		return &pay.Refusal{Reason: pay.ReasonTransfer, Detail: fmt.Sprintf("the token refuses the transfer: %s", r.Reason)}
	}
	return nil
}

// call is a call of the token by the settling account.
func (n *Node) call(data []byte, out *hexutil.Bytes) rpc.BatchElem {
	return rpc.BatchElem{Method: "eth_call", Result: out, Args: []any{map[string]any{
		"from": n.from, "to": n.token, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(transferGas),
	}, "latest"}}
}

// bounded limits what a node may answer.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, err
}

// limited ends a body that is too long in an error.
type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, errors.New("the node's answer is too long")
	}
	return n, err
}
