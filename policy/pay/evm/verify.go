package evm

import (
	"context"
	"errors"
	"io"
	"math/big"
	"net/http"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// Signed implements pay.Chain. Only signatures with a low s are valid, so that there is one per authorization.
func (n *Node) Signed(p *pay.Payment) bool {
	who, ok := typed.Recover(n.digest(&p.Authorization), p.Signature)
	return ok && who == p.From
}

// parity returns a signature's v, which is encoded as 0 and 1 or as 27 and 28, as 0 or 1.
func parity(signature []byte) byte {
	v := signature[64]
	if v >= 27 {
		v -= 27
	}
	return v
}

// Verify implements pay.Chain. The signature is that of an account without code, or one that the payer's contract confirms (ERC-1271).
func (n *Node) Verify(ctx context.Context, p *pay.Payment) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := n.Check(ctx); err != nil {
		return err
	}
	if p.UpTo {
		if err := n.checkPermit(p); err != nil {
			return err
		}
	}
	if !n.Signed(p) {
		if err := n.verifyByWallet(ctx, p); err != nil {
			return err
		}
	}
	return n.simulateTransfer(ctx, p)
}

func wrongSignature(p *pay.Payment) error {
	return p.Refuse(pay.ReasonSignature, "the signature is not the payer's, for this token and chain, with a low s")
}

// verifyByWallet has the payer's contract verify the signature.
func (n *Node) verifyByWallet(ctx context.Context, p *pay.Payment) error {
	is, err := confirms(ctx, n.eth, p.From, n.digest(&p.Authorization), p.Signature)
	if err == nil && !is {
		err = wrongSignature(p)
	}
	return err
}

// confirms reports whether a contract wallet confirms a signature. The contract is not trusted: gas and result are limited.
func confirms(ctx context.Context, eth *ethclient.Client, wallet pay.Address, d pay.Word, signature []byte) (bool, error) {
	at := common.Address(wallet)
	code, err := eth.CodeAt(ctx, at, nil)
	if err != nil {
		return false, scrub(err)
	}
	if len(code) == 0 {
		return false, nil
	}
	out, err := eth.CallContract(ctx, ethereum.CallMsg{To: &at, Gas: walletGas, Data: signatureCall(d, signature)}, nil)
	if _, ok := errors.AsType[rpc.Error](err); ok { // reverted, or out of gas
		return false, nil
	}
	if err != nil {
		return false, scrub(err)
	}
	return len(out) == 32 && pay.Word(out) == erc1271Magic, nil
}

// erc1271Magic is a contract's confirmation of a signature: the call's selector, padded with zeros.
var erc1271Magic = func() (w pay.Word) { copy(w[:], isValidSignature); return w }()

// simulateTransfer queries, in one batch, the payer's balance and allowance, the nonce, and a simulation of the transfer of the whole value.
func (n *Node) simulateTransfer(ctx context.Context, p *pay.Payment) error {
	var state, balance, allowance, moved hexutil.Bytes
	t := &pay.Transfer{Authorization: p.Authorization, Amount: p.Value, Signature: p.Signature}
	to, data := n.transferData(t)
	about, ask := n.stateData(&p.Authorization)
	batch := []rpc.BatchElem{n.call(to, data, &moved), n.call(about, ask, &state), n.call(n.token, balanceCall(p.From), &balance)}
	if p.UpTo {
		batch = append(batch, n.call(n.token, allowanceCall(p.From), &allowance))
	}
	if err := n.rpc.BatchCallContext(ctx, batch); err != nil {
		return scrub(err)
	}
	for _, e := range batch[1:] {
		if e.Error != nil {
			return scrub(e.Error)
		}
	}
	if err := checkFunds(p, state, balance, allowance); err != nil {
		return err
	}
	return refusalOf(p, batch[0].Error)
}

// checkFunds refuses an authorization that was used, or whose value is above the payer's balance or its allowance for Permit2.
func checkFunds(p *pay.Payment, state, balance, allowance []byte) error {
	is, err := typed.Used(&p.Authorization, state)
	if err != nil {
		return err
	}
	if is {
		return p.Refuse(pay.ReasonNonceUsed, "the authorization was used or cancelled")
	}
	if !covers(balance, p.Value) {
		return p.Refuse(pay.ReasonFunds, "the payer's balance is smaller than the authorization")
	}
	if p.UpTo && !covers(allowance, p.Value) {
		return p.Refuse(pay.ReasonAllowance, "the payer must once approve Permit2, %s, as a spender of the token", pay.Permit2)
	}
	return nil
}

func covers(amount []byte, value policy.Micro) bool {
	return len(amount) == 32 && new(big.Int).SetBytes(amount).Cmp(big.NewInt(int64(value))) >= 0
}

// refusalOf returns the refusal of a payment whose simulated transfer failed.
func refusalOf(p *pay.Payment, failed error) error {
	if failed == nil {
		return nil
	}
	err := revertOf(failed)
	if r, ok := errors.AsType[*pay.Revert](err); ok {
		return p.Refuse(pay.ReasonTransfer, "the token refuses the transfer: %s", r.Reason)
	}
	return err
}

// call returns a call by the settling account.
func (n *Node) call(to common.Address, data []byte, out *hexutil.Bytes) rpc.BatchElem {
	return rpc.BatchElem{Method: "eth_call", Result: out, Args: []any{map[string]any{
		"from": n.from, "to": to, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(transferGas),
	}, "latest"}}
}

// dial returns the client of a node. It makes no call yet, and follows no redirect: the address may contain a key, which the next server would get in Referer.
func dial(ctx context.Context, url string) (*rpc.Client, error) {
	c, err := rpc.DialOptions(ctx, url, rpc.WithHTTPClient(&http.Client{
		Transport: bounded{http.DefaultTransport}, Timeout: callTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	if err != nil {
		return nil, errors.New("the node's address is not valid")
	}
	return c, nil
}

// bounded limits the size of a node's responses.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, err
}

// limited returns an error when a body is too long.
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
