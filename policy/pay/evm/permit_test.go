package evm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// permit is one that viem 2.55.0 and PyPI's x402 2.25.0 both signed, with the same result, for the account of key as the facilitator.
func permit() *pay.Payment {
	p := vector()
	p.UpTo, p.Facilitator = true, must(pay.ParseAddress("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"))
	p.Signature = must(hex.DecodeString("d548890d80933409ffb4414bb2597774710c2535538bd09502f1cce8c321a4c3457daa4b599829cb2684845135d4583e3af93e075a369d280333945d81f616cb1c"))
	return p
}

func transferOf(p *pay.Payment) *pay.Transfer {
	return &pay.Transfer{Authorization: p.Authorization, Amount: p.Value, Signature: p.Signature}
}

func TestThePermitOfTwoForeignSigners(t *testing.T) {
	n, p := open(t, nil), permit()
	if d := n.digest(&p.Authorization); d.String() != "0xbe39ce024aa1179cac8e76ec7f412305acab5856eddbcd226837966cade33c45" {
		t.Errorf("the digest is %s", d)
	}
	if !n.Signed(p) {
		t.Error("the signature is not the payer's")
	}
}

// TestPitfall6And18PermitsAreOfOneContent: a signature is not valid for any changed field, the facilitator included.
func TestPitfall6And18PermitsAreOfOneContent(t *testing.T) {
	n := open(t, nil)
	for name, change := range map[string]func(p *pay.Payment){
		"to": func(p *pay.Payment) { p.To[0]++ }, "value": func(p *pay.Payment) { p.Value++ }, "after": func(p *pay.Payment) { p.ValidAfter++ },
		"before": func(p *pay.Payment) { p.ValidBefore++ }, "nonce": func(p *pay.Payment) { p.Nonce[31]++ }, "from": func(p *pay.Payment) { p.From[0]++ },
		"facilitator": func(p *pay.Payment) { p.Facilitator[0]++ }, "scheme": func(p *pay.Payment) { p.UpTo = false },
	} {
		p := permit()
		if change(p); n.Signed(p) {
			t.Errorf("with another %s it is still signed", name)
		}
	}
}

// TestD54UpToIsOfferedWhereItsContractsAre: x402's contract has code, and Permit2 is of this chain.
func TestD54UpToIsOfferedWhereItsContractsAre(t *testing.T) {
	n := open(t, nil)
	for _, row := range []struct {
		about, code, domain string
		offered             bool
	}{
		{"both are there", `"0x60"`, `"` + n.permits.String() + `"`, true},
		{"no contract of x402", `"0x"`, `"` + n.permits.String() + `"`, false},
		{"no Permit2", `"0x60"`, `"0x"`, false},
		{"a Permit2 of another chain", `"0x60"`, `"` + vectorDigest + `"`, false},
		{"a Permit2 that reverts", `"0x60"`, `!execution reverted`, false},
	} {
		n := open(t, map[string]string{"eth_getCode": row.code, "eth_call": row.domain})
		if err := n.checkUpTo(t.Context()); err != nil {
			t.Errorf("%s: %v", row.about, err)
		}
		if facilitator, ok := n.UpTo(); ok != row.offered || facilitator != permit().Facilitator {
			t.Errorf("%s: offered %v by %s", row.about, ok, facilitator)
		}
	}
	if err := open(t, map[string]string{"eth_getCode": "!busy", "eth_call": "!busy"}).checkUpTo(t.Context()); err == nil {
		t.Error("a node that does not say")
	}
}

// TestPitfall18APermitForAnotherFacilitatorIsRefused, without a call; and every permit if the scheme is not available.
func TestPitfall18APermitForAnotherFacilitatorIsRefused(t *testing.T) {
	n := open(t, nil)
	n.checked.Store(true)
	var r *pay.Refusal
	if err := n.Verify(t.Context(), permit()); !errors.As(err, &r) || r.Reason != pay.ReasonScheme {
		t.Errorf("without the contract: %v", err)
	}
	n.upTo.Store(true)
	p := permit()
	p.Facilitator[3]++
	if err := n.Verify(t.Context(), p); !errors.As(err, &r) || r.Reason != pay.ReasonFacilitator {
		t.Errorf("another facilitator: %v", err)
	}
	p = permit()
	p.Signature[5]++
	if err := open(t, map[string]string{"eth_getCode": `"0x"`}).verifyByWallet(t.Context(), p); !errors.As(err, &r) || r.Reason != "invalid_permit2_signature" {
		t.Errorf("another signature: %v", err)
	}
}

// TestPitfall19ACallOfAStrangersContractHasItsGas: without a gas limit, a node may run it for any time.
func TestPitfall19ACallOfAStrangersContractHasItsGas(t *testing.T) {
	var calls []map[string]string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params []json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		if m.Method == "eth_call" {
			var c map[string]string
			if err := json.Unmarshal(m.Params[0], &c); err != nil {
				t.Error(err)
			}
			calls = append(calls, c)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":"0x01"}`)
	}))
	t.Cleanup(s.Close)
	n, err := Open(t.Context(), pay.NodeOptions{URL: s.URL, Key: key, Terms: terms})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.rpc.Close)
	p := vector()
	p.From[0]++ // another account than the one that signed, with code
	if err := n.verifyByWallet(t.Context(), p); err == nil {
		t.Error("it is confirmed")
	}
	if len(calls) != 1 || calls[0]["to"] != p.From.String() || calls[0]["gas"] != "0x30d40" {
		t.Errorf("%v", calls)
	}
	if c, ok := n.call(n.token, nil, nil).Args[0].(map[string]any); !ok || c["gas"] != hexutil.Uint64(transferGas) {
		t.Errorf("a tried transfer: %v", c)
	}
}

// TestPitfall19ANodesAnswerIsBounded: a contract determines the length of a result.
func TestPitfall19ANodesAnswerIsBounded(t *testing.T) {
	for size, fails := range map[int]bool{maxAnswer - 1000: false, maxAnswer + 1000: true} {
		n := open(t, map[string]string{"eth_getCode": `"0x` + strings.Repeat("00", size/2) + `"`})
		code, err := n.eth.CodeAt(t.Context(), n.token, nil)
		if (err != nil) != fails || !fails && len(code) != size/2 {
			t.Errorf("%d bytes: %d, %v", size, len(code), err)
		}
	}
}

// TestPermitsNonces are bits of words, and the payer's balance is compared with the whole value.
func TestPermitsNonces(t *testing.T) {
	a := &pay.Authorization{UpTo: true, From: pay.Address{9}, Nonce: must(pay.ParseWord("0x" + strings.Repeat("ab", 31) + "03"))}
	if _, data := typed.State(pay.Address{}, a); hex.EncodeToString(data[36:]) != "00"+strings.Repeat("ab", 31) {
		t.Errorf("the word is %x", data[36:])
	}
	for word, want := range map[uint64]bool{0: false, 8: true, 7: false, 255: true} {
		if is, err := typed.Used(a, typed.Number(word)); is != want || err != nil {
			t.Errorf("%d: %v, %v", word, is, err)
		}
	}
	if _, err := typed.Used(a, []byte{1}); err == nil {
		t.Error("a word of one byte")
	}
	p := permit()
	for _, row := range []struct {
		balance, allowance uint64
		want               string
	}{{12344, 99999, "permit2_insufficient_balance"}, {12345, 12344, pay.ReasonAllowance}, {12345, 12345, ""}} {
		var r *pay.Refusal
		err := checkFunds(p, typed.Number(0), typed.Number(row.balance), typed.Number(row.allowance))
		if errors.As(err, &r); err == nil && row.want != "" || err != nil && r.Reason != row.want {
			t.Errorf("%+v: %v", row, err)
		}
	}
	var r *pay.Refusal
	if err := checkFunds(p, bytes.Repeat([]byte{0xff}, 32), typed.Number(99999), typed.Number(99999)); !errors.As(err, &r) {
		t.Errorf("a permit that was used: %v", err)
	}
	if err := checkFunds(vector(), typed.Number(1), typed.Number(99999), nil); !errors.As(err, &r) || r.Reason != pay.ReasonNonceUsed {
		t.Errorf("an authorization that was used: %v", err)
	}
}

// TestPitfall17TheCallSaysTheAmountAndTheMost: the call has both, and is recognised as that of the permit.
func TestPitfall17TheCallSaysTheAmountAndTheMost(t *testing.T) {
	tr := transferOf(permit())
	tr.Amount = 77
	data := settleCall(terms.Asset.Address, tr)
	word := func(n int) pay.Word { return pay.Word(data[4+32*n:]) }
	if word(1) != pay.Word(typed.Number(12345)) || word(4) != pay.Word(typed.Number(77)) || word(9) != pay.Word(typed.Number(320)) || word(10) != pay.Word(typed.Number(65)) || len(data) != 4+32*14 {
		t.Errorf("%x", data)
	}
	if !isSettle(tr, data) {
		t.Error("it is not known again")
	}
	other := *tr
	other.Nonce[0]++
	if isSettle(&other, data) || isSettle(tr, data[:100]) || isSettle(tr, transferCall(&tr.Authorization, tr.Signature)) {
		t.Error("another call is taken for it")
	}
}
