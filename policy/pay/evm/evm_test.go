package evm

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// terms of the vectors.
var terms = &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}, Asset: pay.Token{Address: must(pay.ParseAddress("0x833589fcd6edb6e08f4c7c32d4f71b54bda02913")), Name: "USD Coin", Version: "2"}}

// vector is an authorization that viem 2.55.0 and eth-account 0.14.0 both signed, with the same result.
func vector() *pay.Payment {
	return &pay.Payment{Version: 2, Authorization: pay.Authorization{
		From: must(pay.ParseAddress("0x70997970c51812dc3a010c7d01b50e0d17dc79c8")), To: must(pay.ParseAddress("0x00000000000000000000000000000000000000aa")),
		Value: 12345, ValidAfter: 7, ValidBefore: 1_800_000_000, Nonce: must(pay.ParseWord("0x" + strings.Repeat("5a", 32))),
	}, Signature: must(hex.DecodeString("c5458ec3d6da7be14527f19f38a0b02e18c620c3c3b2d6537b824befefde91cd0a06ae951ee9b0ef5b1c47fb482be81b9e885d0677edda0d00df6ce055deddce1c"))}
}

const vectorDigest = "0xa693b6e1d57f716f5cf7a9854e4ab91b82b6c158213938b98689ff88fbab7f18"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

const key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

// open is a client of a node with fixed answers by method: a JSON value, or an error's message after "!".
func open(t *testing.T, answers map[string]string) *Node {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		answer, ok := answers[m.Method]
		w.Header().Set("Content-Type", "application/json")
		switch message, failed := strings.CutPrefix(answer, "!"); {
		case !ok:
			w.WriteHeader(http.StatusServiceUnavailable)
		case failed:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":3,"message":"`+message+`"}}`)
		default:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+answer+`}`)
		}
	}))
	t.Cleanup(s.Close)
	n, err := Open(t.Context(), pay.NodeOptions{URL: s.URL, Key: key, Terms: terms})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.rpc.Close)
	return n
}

func TestTheVectorOfTwoForeignSigners(t *testing.T) {
	n, p := open(t, nil), vector()
	if d := n.digest(&p.Authorization); d.String() != vectorDigest {
		t.Errorf("the digest is %s", d)
	}
	if !n.Signed(p) {
		t.Error("the signature is not the payer's")
	}
	p.Signature[64] -= 27 // written as 0 and 1
	if !n.Signed(p) {
		t.Error("the other way to write v")
	}
}

// TestPitfall3And6SignaturesAreOfOneContentAndOneForm: a signature is not valid for any changed field, nor with a high s.
func TestPitfall3And6SignaturesAreOfOneContentAndOneForm(t *testing.T) {
	n := open(t, nil)
	for name, change := range map[string]func(p *pay.Payment){
		"to": func(p *pay.Payment) { p.To[0]++ }, "value": func(p *pay.Payment) { p.Value++ }, "after": func(p *pay.Payment) { p.ValidAfter++ },
		"before": func(p *pay.Payment) { p.ValidBefore++ }, "nonce": func(p *pay.Payment) { p.Nonce[31]++ }, "from": func(p *pay.Payment) { p.From[0]++ },
		"twin": func(p *pay.Payment) {
			order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
			order.Sub(order, new(big.Int).SetBytes(p.Signature[32:64])).FillBytes(p.Signature[32:64])
			p.Signature[64] = 27 + 28 - p.Signature[64]
		},
		"v": func(p *pay.Payment) { p.Signature[64] = 29 }, "length": func(p *pay.Payment) { p.Signature = append(p.Signature, 0) }, "zero": func(p *pay.Payment) { clear(p.Signature) },
	} {
		p := vector()
		if change(p); n.Signed(p) {
			t.Errorf("with another %s it is still signed", name)
		}
	}
}

func FuzzSigned(f *testing.F) {
	n := must(Open(context.Background(), pay.NodeOptions{URL: "http://127.0.0.1:1", Key: key, Terms: terms}))
	f.Add(vector().Signature)
	f.Fuzz(func(t *testing.T, s []byte) {
		p := vector()
		good := string(p.Signature[:64])
		if p.Signature = s; n.Signed(p) && string(s[:64]) != good {
			t.Errorf("%x was taken for the payer's signature", s)
		}
		if len(s) >= ecdsaSize {
			_ = transferCall(&p.Authorization, s)
		}
	})
}

// FuzzRecover: the signer is the same as go-ethereum's, except that a signature with a high s is invalid.
func FuzzRecover(f *testing.F) {
	p := vector()
	f.Add([]byte("digest"), p.Signature)
	f.Add([]byte{}, make([]byte, 65))
	f.Fuzz(func(t *testing.T, text, signature []byte) {
		d := typed.Keccak256(text)
		who, ok := typed.Recover(d, signature)
		if len(signature) != ecdsaSize {
			if ok {
				t.Errorf("%x is a signature", signature)
			}
			return
		}
		v, low := parity(signature), new(big.Int).SetBytes(signature[32:64])
		valid := v < 2 && crypto.ValidateSignatureValues(v, new(big.Int).SetBytes(signature[:32]), low, true)
		var want pay.Address
		if valid {
			key, err := crypto.SigToPub(d[:], append(append([]byte(nil), signature[:64]...), v))
			if valid = err == nil; valid {
				want = pay.Address(crypto.PubkeyToAddress(*key))
			}
		}
		if ok != valid || who != want {
			t.Errorf("%x by %x: %v %s, go-ethereum has %v %s", d, signature, ok, who, valid, want)
		}
	})
}

// TestPitfall19AnAccountWithoutCodeConfirmsNothing, whatever the node's result of the call is; nor does a contract that returns more than one word.
func TestPitfall19AnAccountWithoutCodeConfirmsNothing(t *testing.T) {
	word := erc1271Magic.String()
	for _, row := range []struct {
		code, says string
		want       bool
	}{{"0x", word, false}, {"0xfe", word, true}, {"0xfe", word + strings.Repeat("0", 64), false}, {"0xfe", word[:64], false}, {"0xfe", "0x", false}} {
		code, want := row.code+" says "+row.says, row.want
		n, p := open(t, map[string]string{"eth_getCode": `"` + row.code + `"`, "eth_call": `"` + row.says + `"`}), vector()
		p.Signature[5]++
		err := n.verifyByWallet(t.Context(), p)
		if r, ok := errors.AsType[*pay.Refusal](err); (err == nil) != want || !want && (!ok || r.Reason != pay.ReasonSignature) {
			t.Errorf("code %s: %v", code, err)
		}
		if is, err := confirms(t.Context(), n.eth, p.From, pay.Word{}, nil); is != want || err != nil {
			t.Errorf("code %s: confirmed %v, %v", code, is, err)
		}
	}
}

// TestPitfall4And5TheNodeAndTheTokenAreThoseOfTheTerms.
func TestPitfall4And5TheNodeAndTheTokenAreThoseOfTheTerms(t *testing.T) {
	domain := typed.Domain(terms.Asset, terms.Network.ID)
	for _, row := range []struct {
		about, chain, call string
		right, mismatch    bool
	}{
		{"right", `"0x2105"`, `"` + domain.String() + `"`, true, false},
		{"another chain", `"0x1"`, `"` + domain.String() + `"`, false, true},
		{"another token", `"0x2105"`, `"` + vectorDigest + `"`, false, true},
		{"no contract", `"0x2105"`, `"0x"`, false, true},
		{"a node that fails", `!no`, `!no`, false, false},
	} {
		err := open(t, map[string]string{"eth_chainId": row.chain, "eth_call": row.call, "eth_getCode": `"0x"`}).Check(t.Context())
		var m *pay.Mismatch
		if (err == nil) != row.right || errors.As(err, &m) != row.mismatch {
			t.Errorf("%s: %v", row.about, err)
		}
	}
}

// TestErrorsDoNotSayWhereTheNodeIs: its address may contain a key.
func TestErrorsDoNotSayWhereTheNodeIs(t *testing.T) {
	n := must(Open(t.Context(), pay.NodeOptions{URL: "http://127.0.0.1:1/secret", Key: key, Terms: terms}))
	for _, err := range []error{n.Check(t.Context()), n.Verify(t.Context(), vector()), n.Send(t.Context(), nil)} {
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%v", err)
		}
	}
	if _, err := open(t, nil).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a node that answers 503: %v", err)
	}
	for _, o := range []pay.NodeOptions{{URL: "http://x", Key: "secret", Terms: terms}, {URL: "secret://x", Key: key, Terms: terms}} {
		if _, err := Open(t.Context(), o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

func TestWhatANodeSaysOfATransfer(t *testing.T) {
	domain := `"` + typed.Domain(terms.Asset, terms.Network.ID).String() + `"`
	usual := map[string]string{"eth_chainId": `"0x2105"`, "eth_call": domain, "eth_getCode": `"0x"`}
	with := func(method, answer string) map[string]string {
		m := map[string]string{method: answer}
		maps.Copy(m, usual)
		return m
	}
	p := vector()
	var r *pay.Revert
	if _, err := open(t, with("eth_estimateGas", "!execution reverted: authorization is expired")).Prepare(t.Context(), transferOf(p), 0, pay.Fees{}); !errors.As(err, &r) {
		t.Errorf("a transfer that would fail: %v", err)
	}
	if _, err := open(t, with("eth_estimateGas", "!too many requests")).Prepare(t.Context(), transferOf(p), 0, pay.Fees{}); err == nil || errors.As(err, &r) {
		t.Errorf("a node that is busy: %v", err)
	}
	if err := open(t, with("eth_sendRawTransaction", "!already known")).Send(t.Context(), []byte{1}); err != nil {
		t.Errorf("a transaction that the node has: %v", err)
	}
	if err := open(t, with("eth_sendRawTransaction", "!nonce too low")).Send(t.Context(), []byte{1}); err == nil {
		t.Error("a transaction that the node does not take")
	}
	if _, ok, err := open(t, with("eth_getTransactionReceipt", "null")).Receipt(t.Context(), pay.Word{}, transferOf(p)); ok || err != nil {
		t.Errorf("no receipt: %v", err)
	}
	if _, err := open(t, with("eth_blockNumber", "1")).Used(t.Context(), &p.Authorization); err == nil {
		t.Error("a state that is neither yes nor no")
	}
}

// TestAnAnswerThatIsTooLongIsAnError.
func TestAnAnswerThatIsTooLongIsAnError(t *testing.T) {
	if _, err := open(t, map[string]string{"eth_chainId": `"` + strings.Repeat("0", maxAnswer) + `"`}).eth.ChainID(t.Context()); err == nil {
		t.Error("it was read")
	}
}
