package typed

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"bardo.money/gateway/policy/pay"
)

// usdc is USDC on Base.
var usdc = pay.Token{Address: must(pay.ParseAddress("0x833589fcd6edb6e08f4c7c32d4f71b54bda02913")), Name: "USD Coin", Version: "2"}

const base = 8453

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func word(t *testing.T, text string) pay.Word {
	t.Helper()
	w, err := pay.ParseWord(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPublishedHashes: constants in the contracts' code.
func TestPublishedHashes(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"Keccak-256 of nothing", hashOf(""), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"},
		{"EIP-3009's type", hashOf(transferType), "7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267"},
		{"EIP-712's domain", hashOf(domainType), "8b73c3c69bb8fe3d512ecc4cf759cc79239f7b179b0ffacaa9a75d522b39400f"},
		{"the selector of a transfer", Selector("transfer(address,uint256)"), "a9059cbb"},
		{"the selector of a balance", Selector("balanceOf(address)"), "70a08231"},
		{"the selector of an authorization's state", Selector("authorizationState(address,bytes32)"), "e94a0102"},
		{"the selector of Permit2's nonces", Selector("nonceBitmap(address,uint256)"), "4fe02b44"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// authorization is one whose fields all differ.
func authorization(upTo bool) *pay.Authorization {
	a := &pay.Authorization{UpTo: upTo, Facilitator: pay.Address{7}, From: pay.Address{1, 2}, To: pay.Address{3, 19: 4}, Value: 1_234_567, ValidAfter: 1_700_000_000, ValidBefore: 1_700_000_300}
	for i := range a.Nonce {
		a.Nonce[i] = byte(i + 1)
	}
	return a
}

// byWallets is go-ethereum's hash of the same message in the form that wallets get.
func byWallets(t *testing.T, primary string, types apitypes.Types, domain apitypes.TypedDataDomain, m apitypes.TypedDataMessage) string {
	t.Helper()
	types["EIP712Domain"] = []apitypes.Type{{Name: "name", Type: "string"}}
	if domain.Version != "" {
		types["EIP712Domain"] = append(types["EIP712Domain"], apitypes.Type{Name: "version", Type: "string"})
	}
	types["EIP712Domain"] = append(types["EIP712Domain"], apitypes.Type{Name: "chainId", Type: "uint256"}, apitypes.Type{Name: "verifyingContract", Type: "address"})
	sum, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{Types: types, PrimaryType: primary, Domain: domain, Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum)
}

func number(n uint64) *math.HexOrDecimal256 {
	return (*math.HexOrDecimal256)(new(big.Int).SetUint64(n))
}

// TestWhatIsSignedIsWhatWalletsSign: an authorization and a permit, compared with another implementation of EIP-712.
func TestWhatIsSignedIsWhatWalletsSign(t *testing.T) {
	a := authorization(false)
	got := Digest(usdc, base, a)
	want := byWallets(t, "TransferWithAuthorization", apitypes.Types{"TransferWithAuthorization": {
		{Name: "from", Type: "address"},
		{Name: "to", Type: "address"},
		{Name: "value", Type: "uint256"},
		{Name: "validAfter", Type: "uint256"},
		{Name: "validBefore", Type: "uint256"},
		{Name: "nonce", Type: "bytes32"},
	}}, apitypes.TypedDataDomain{Name: usdc.Name, Version: usdc.Version, ChainId: number(base), VerifyingContract: usdc.Address.String()}, apitypes.TypedDataMessage{
		"from": a.From.String(), "to": a.To.String(), "value": number(uint64(a.Value)), "validAfter": number(a.ValidAfter), "validBefore": number(a.ValidBefore), "nonce": a.Nonce.String(),
	})
	if hex.EncodeToString(got[:]) != want {
		t.Errorf("a transfer: %x, want %s", got, want)
	}

	a = authorization(true)
	got = Digest(usdc, base, a)
	want = byWallets(t, "PermitWitnessTransferFrom", apitypes.Types{
		"PermitWitnessTransferFrom": {
			{Name: "permitted", Type: "TokenPermissions"},
			{Name: "spender", Type: "address"},
			{Name: "nonce", Type: "uint256"},
			{Name: "deadline", Type: "uint256"},
			{Name: "witness", Type: "Witness"},
		},
		"TokenPermissions": {{Name: "token", Type: "address"}, {Name: "amount", Type: "uint256"}},
		"Witness":          {{Name: "to", Type: "address"}, {Name: "facilitator", Type: "address"}, {Name: "validAfter", Type: "uint256"}},
	}, apitypes.TypedDataDomain{Name: "Permit2", ChainId: number(base), VerifyingContract: pay.Permit2.String()}, apitypes.TypedDataMessage{
		"permitted": map[string]any{"token": usdc.Address.String(), "amount": number(uint64(a.Value))}, "spender": pay.UpToProxy.String(),
		"nonce": (*math.HexOrDecimal256)(new(big.Int).SetBytes(a.Nonce[:])), "deadline": number(a.ValidBefore),
		"witness": map[string]any{"to": a.To.String(), "facilitator": a.Facilitator.String(), "validAfter": number(a.ValidAfter)},
	})
	if hex.EncodeToString(got[:]) != want {
		t.Errorf("a permit: %x, want %s", got, want)
	}
}

// TestEachFieldIsSigned: a change of any field changes the digest.
func TestEachFieldIsSigned(t *testing.T) {
	for _, upTo := range []bool{false, true} {
		seen := map[pay.Word]string{Digest(usdc, base, authorization(upTo)): "nothing"}
		note := func(what string, sum pay.Word) {
			if other, ok := seen[sum]; ok {
				t.Errorf("up to %v: %s changes as much as %s", upTo, what, other)
			}
			seen[sum] = what
		}
		for what, change := range map[string]func(*pay.Authorization){
			"from": func(a *pay.Authorization) { a.From[19]++ }, "to": func(a *pay.Authorization) { a.To[0]++ }, "value": func(a *pay.Authorization) { a.Value++ },
			"valid after": func(a *pay.Authorization) { a.ValidAfter++ }, "valid before": func(a *pay.Authorization) { a.ValidBefore++ },
			"nonce": func(a *pay.Authorization) { a.Nonce[31]++ }, "facilitator": func(a *pay.Authorization) { a.Facilitator[3]++ },
		} {
			if !upTo && what == "facilitator" || upTo && what == "from" { // a transfer has no facilitator; a permit's owner is not signed
				continue
			}
			a := authorization(upTo)
			change(a)
			note(what, Digest(usdc, base, a))
		}
		note("the chain", Digest(usdc, base+1, authorization(upTo)))
		other := usdc
		other.Address[0]++
		note("the token", Digest(other, base, authorization(upTo)))
	}
}

// TestWhetherAnAuthorizationWasUsed: the contract, the call, and the parsed result.
func TestWhetherAnAuthorizationWasUsed(t *testing.T) {
	a := authorization(false)
	to, data := State(usdc.Address, a)
	if want := append(append(Selector("authorizationState(address,bytes32)"), Address(a.From)...), a.Nonce[:]...); to != usdc.Address || !bytes.Equal(data, want) {
		t.Errorf("a transfer is asked of %s: %x", to, data)
	}
	permit := authorization(true)
	to, data = State(usdc.Address, permit)
	if to != pay.Permit2 || len(data) != 4+64 || !bytes.Equal(data[4+32+1:], permit.Nonce[:31]) || data[4+32] != 0 {
		t.Errorf("a permit is asked of %s: %x", to, data)
	}
	bit := func(n int) []byte {
		b := new(big.Int).Lsh(big.NewInt(1), uint(n))
		return b.FillBytes(make([]byte, 32))
	}
	zero, one := make([]byte, 32), word(t, "0x0000000000000000000000000000000000000000000000000000000000000001")
	for _, c := range []struct {
		name   string
		a      *pay.Authorization
		answer []byte
		used   bool
		fails  bool
	}{
		{"a transfer that was not used", a, zero, false, false},
		{"a transfer that was used", a, one[:], true, false},
		{"no boolean", a, bit(1), false, true},
		{"a number beyond 64 bits", a, bit(200), false, true},
		{"no answer", a, nil, false, true},
		{"an answer that is too long", a, make([]byte, 64), false, true},
		{"a permit that was not used", permit, zero, false, false},
		{"a permit that was used", permit, bit(int(permit.Nonce[31])), true, false},
		{"another permit of the same word", permit, bit(int(permit.Nonce[31]) + 1), false, false},
		{"no answer about a permit", permit, nil, false, true},
	} {
		used, err := Used(c.a, c.answer)
		if used != c.used || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", c.name, used, err)
		}
	}
}
