package pay

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

var (
	now   = time.Unix(1_800_000_000, 0)
	terms = Terms{
		Network: Network{84532, "base-sepolia"}, Asset: Token{Address{1}, "USD Coin", "2"}, PayTo: Address{2},
		Fee: 1000, MinPrice: 1500, QuoteTTL: 5 * time.Minute, ServeTime: 15 * time.Minute, Margin: 2 * time.Minute,
	}
	seal = NewQuoteSigner([]byte("secret"), &terms)
)

// authorization is a payer's authorization for the terms.
func authorization() map[string]any {
	return map[string]any{
		"from": Address{3}.String(), "to": terms.PayTo.String(), "value": "5000", "validAfter": "0", "validBefore": "1800001320", "nonce": Word{4}.String(),
	}
}

// text is a message of a version.
func text(version int, a map[string]any) string {
	m := map[string]any{"x402Version": version, "payload": map[string]any{"signature": "0x" + strings.Repeat("ab", 65), "authorization": a}}
	if version == 1 {
		m["scheme"], m["network"] = "exact", "base-sepolia"
	} else {
		m["accepted"] = terms.requirement(&Offer{Quote: Quote{Amount: 5000}, Signed: "q"})
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// permitOf is the payload of scheme upto.
func permitOf() map[string]any {
	return map[string]any{
		"from": Address{3}.String(), "permitted": map[string]any{"token": terms.Asset.Address.String(), "amount": "5000"}, "spender": UpToProxy.String(), "nonce": "1024",
		"deadline": "1800001320", "witness": map[string]any{"to": terms.PayTo.String(), "facilitator": Address{8}.String(), "validAfter": "0"},
	}
}

// upTo is a message of scheme upto, which change may alter.
func upTo(change func(accepted, permit map[string]any)) string {
	accepted := map[string]any{
		"scheme": "upto", "network": terms.Network.String(), "amount": "5000", "asset": terms.Asset.Address.String(), "payTo": terms.PayTo.String(), "maxTimeoutSeconds": 1320,
		"extra": map[string]any{"name": "USD Coin", "version": "2", "quote": "q", "facilitatorAddress": Address{8}.String()},
	}
	permit := permitOf()
	if change != nil {
		change(accepted, permit)
	}
	b, err := json.Marshal(map[string]any{"x402Version": 2, "accepted": accepted, "payload": map[string]any{"signature": "0x" + strings.Repeat("ab", 65), "permit2Authorization": permit}})
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func TestPermitsAreRead(t *testing.T) {
	p, err := terms.Parse(upTo(nil), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := Authorization{UpTo: true, Facilitator: Address{8}, From: Address{3}, To: terms.PayTo, Value: 5000, ValidBefore: 1_800_001_320, Nonce: Word{30: 4}}
	if p.Authorization != want || p.Quote != "q" || p.Scheme() != SchemeUpTo || terms.Check(p, now) != nil {
		t.Errorf("%+v", p)
	}
}

// TestPitfall9OneNonceInTwoForms is one nonce; a text that is no number of 256 bits is refused.
func TestPitfall9OneNonceInTwoForms(t *testing.T) {
	for text, want := range map[string]Word{"1024": {30: 4}, "0x400": {30: 4}, "0x0400": {30: 4}, "0x" + strings.Repeat("f", 64): {}, "0": {}} {
		p, err := terms.Parse(upTo(func(_, permit map[string]any) { permit["nonce"] = text }), 2)
		if err != nil || len(text) < 60 && p.Nonce != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "-1", "1_0", "0x", "0xg", "+5", "1.5", "1" + strings.Repeat("0", 78), "0x1" + strings.Repeat("0", 64), "0x" + strings.Repeat("0", 100) + "1", strings.Repeat("9", 1000)} {
		var r *Refusal
		if _, err := terms.Parse(upTo(func(_, permit map[string]any) { permit["nonce"] = text }), 2); err == nil || errors.As(err, &r) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestPitfall5And6EachFieldOfAPermit that differs from the terms is refused with its own code.
func TestPitfall5And6EachFieldOfAPermit(t *testing.T) {
	for _, row := range []struct {
		about  string
		change func(accepted, permit map[string]any)
		want   string
	}{
		{"the token", func(_, p map[string]any) {
			p["permitted"] = map[string]any{"token": Address{9}.String(), "amount": "5000"}
		}, "permit2_token_mismatch"},
		{"the amount", func(_, p map[string]any) {
			p["permitted"] = map[string]any{"token": terms.Asset.Address.String(), "amount": "4999"}
		}, "permit2_amount_mismatch"},
		{"the spender", func(_, p map[string]any) { p["spender"] = Address{9}.String() }, ReasonSpender},
		{"the payee", func(_, p map[string]any) {
			p["witness"] = map[string]any{"to": Address{9}.String(), "facilitator": Address{8}.String(), "validAfter": 0}
		}, "invalid_permit2_recipient_mismatch"},
		{"the facilitator", func(_, p map[string]any) {
			p["witness"] = map[string]any{"to": terms.PayTo.String(), "facilitator": Address{9}.String(), "validAfter": 0}
		}, ReasonFacilitator},
		{"the time", func(_, p map[string]any) { p["deadline"] = "1800000060" }, "permit2_deadline_expired"},
		{"the beginning", func(_, p map[string]any) {
			p["witness"] = map[string]any{"to": terms.PayTo.String(), "facilitator": Address{8}.String(), "validAfter": "1800000060"}
		}, "permit2_not_yet_valid"},
		{"the payee that is named", func(a, _ map[string]any) { a["payTo"] = Address{9}.String() }, "invalid_permit2_recipient_mismatch"},
		{"the asset that is named", func(a, _ map[string]any) { a["asset"] = Address{9}.String() }, ReasonTerms},
		{"the network that is named", func(a, _ map[string]any) { a["network"] = "eip155:8453" }, ReasonNetwork},
		{"the scheme that is named", func(a, _ map[string]any) { a["scheme"] = "up-to" }, ReasonScheme},
	} {
		p, err := terms.Parse(upTo(row.change), 2)
		if err == nil {
			err = terms.Check(p, now)
		}
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != row.want {
			t.Errorf("%s: %v", row.about, err)
		}
	}
}

func TestBothVersionsAreRead(t *testing.T) {
	for version := 1; version <= 2; version++ {
		p, err := terms.Parse(text(version, authorization()), version)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		want := Authorization{From: Address{3}, To: terms.PayTo, Value: 5000, ValidBefore: 1_800_001_320, Nonce: Word{4}}
		if p.Authorization != want || len(p.Signature) != 65 || p.Quote != map[int]string{1: "", 2: "q"}[version] {
			t.Errorf("version %d: %+v", version, p)
		}
		if err := terms.Check(p, now); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		if _, err := terms.Parse(text(version, authorization()), 3-version); err == nil {
			t.Errorf("version %d was read in the header of the other one", version)
		}
	}
}

// TestPitfall29WhatCannotBeRead is an error that is no refusal: the client's message is invalid.
func TestPitfall29WhatCannotBeRead(t *testing.T) {
	for field, values := range map[string][]any{
		"from":        {"", "0x", "0x12", strings.Repeat("a", 42), "0x" + strings.Repeat("g", 40), 1},
		"to":          {"0x" + strings.Repeat("0", 41)},
		"nonce":       {"0x01", "1", "0x" + strings.Repeat("0", 65)},
		"value":       {"", "-1", "1.5", "1e3", "0x10", strings.Repeat("9", 80), "1000000000001", nil},
		"validAfter":  {"x", strings.Repeat("9", 30)},
		"validBefore": {"115792089237316195423570985008687907853269984665640564039457584007913129639935"},
	} {
		for _, v := range values {
			a := authorization()
			a[field] = v
			_, err := terms.Parse(text(1, a), 1)
			var r *Refusal
			if err == nil || errors.As(err, &r) {
				t.Errorf("%s %v: %v", field, v, err)
			}
		}
	}
	long, err := base64.StdEncoding.DecodeString(text(1, authorization()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := terms.Parse(base64.StdEncoding.EncodeToString(append(long, strings.Repeat(" ", maxHeader)...)), 1); !errors.Is(err, errLong) {
		t.Errorf("a message that is too long: %v", err)
	}
	for _, n := range []int{64, 65, maxSignature, maxSignature + 1} {
		if _, err := parseSignature("0x" + strings.Repeat("ab", n)); (err == nil) != (n >= 65 && n <= maxSignature) {
			t.Errorf("a signature of %d bytes: %v", n, err)
		}
	}
	for _, s := range []string{"", "%", strings.Repeat("A", maxHeader+1), "bnVsbA==", "e30=", base64.StdEncoding.EncodeToString([]byte(`{"x402Version":1,"scheme":"exact","network":"base-sepolia","payload":{"signature":"0x00","authorization":{}}}`))} {
		if _, err := terms.Parse(s, 1); err == nil {
			t.Errorf("%.20q was read", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(text(1, authorization()), 1)
	f.Add(text(2, authorization()), 2)
	f.Add(upTo(nil), 2)
	f.Add(strings.Repeat("W1", 200), 2)
	f.Fuzz(func(t *testing.T, s string, version int) {
		p, err := terms.Parse(s, version)
		if err != nil {
			return
		}
		if len(p.Signature) < 65 || len(p.Signature) > maxSignature || p.Value < 0 || uint64(p.Value) > maxValue || p.ValidBefore > maxTime {
			t.Errorf("read %+v", p)
		}
		_ = terms.Check(p, now)
		_, _ = terms.CheckAmount(seal, p, Word{}, 1, 0, now)
	})
}

func FuzzOpenQuote(f *testing.F) {
	f.Add(seal.Sign(Quote{Amount: 1, Expires: now}))
	f.Add(seal.Sign(Quote{Amount: 1, Expires: now}) + "\n") // ignored in base64
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if q, ok := seal.Open(s); ok && seal.Sign(q) != s {
			t.Errorf("%q was taken for a quote of %+v", s, q)
		}
	})
}

// TestPitfall6And7QuotesHoldForTheirRequest: a lower quote is valid only for its request, and until it expires.
func TestPitfall6And7QuotesHoldForTheirRequest(t *testing.T) {
	q := Quote{Amount: 5000, Digest: Word{9}, Expires: now.Add(time.Minute)}
	other := NewQuoteSigner([]byte("other"), &terms)
	for _, row := range []struct {
		about  string
		p      Payment
		digest Word
		price  policy.Micro
		at     time.Time
		want   string
		owed   policy.Micro
	}{
		{"the current price", Payment{}, Word{9}, 5000, now, "", 0},
		{"more than the price", Payment{}, Word{9}, 4000, now, "", 0},
		{"less, without a quote", Payment{}, Word{9}, 6000, now, ReasonValue, 0},
		{"less, with a quote", Payment{Quote: seal.Sign(q)}, Word{9}, 6000, now, "", 0},
		{"another request", Payment{Quote: seal.Sign(q)}, Word{8}, 6000, now, ReasonTerms, 0},
		{"too late", Payment{Quote: seal.Sign(q)}, Word{9}, 6000, now.Add(time.Hour), ReasonTerms, 0},
		{"a quote of another gateway", Payment{Quote: other.Sign(q)}, Word{9}, 6000, now, ReasonValue, 0},
		{"a quote above the payment", Payment{Quote: seal.Sign(Quote{Amount: 5500, Digest: Word{9}, Expires: q.Expires})}, Word{9}, 6000, now, ReasonValue, 0},
		{"the price and the debt", Payment{}, Word{9}, 4000, now, "", 1000},
		{"less than both", Payment{}, Word{9}, 4000, now, ReasonValue, 1001},
		{"less, with a quote without the debt", Payment{Quote: seal.Sign(q)}, Word{9}, 6000, now, ReasonValue, 1},
	} {
		row.p.Value = 5000
		short, why := terms.CheckAmount(seal, &row.p, row.digest, row.price, row.owed, row.at)
		if got := why; (got == nil) != (row.want == "") || got != nil && got.Reason != row.want || (short > 0) != (got != nil) {
			t.Errorf("%s: %d short, %v", row.about, short, why)
		}
	}
	text := []byte(seal.Sign(q))
	for i := range text {
		changed := append([]byte{}, text...)
		changed[i] ^= 1
		if got, ok := seal.Open(string(changed)); ok && got != q {
			t.Errorf("a changed quote was taken: %+v", got)
		}
	}
}

// TestPitfall22AWalletThatIsNotDeployedIsRefusedByItsName, with its own code.
func TestPitfall22AWalletThatIsNotDeployedIsRefusedByItsName(t *testing.T) {
	p := &Payment{Authorization: Authorization{To: terms.PayTo, Value: 5000, ValidBefore: 1 << 39}, Signature: append(make([]byte, 65), erc6492Suffix[:]...)}
	var r *Refusal
	if err := terms.Check(p, now); !errors.As(err, &r) || r.Reason != ReasonUndeployed {
		t.Errorf("%v", err)
	}
	p.Signature = append(p.Signature, 1) // no longer a suffix
	if err := terms.Check(p, now); err != nil {
		t.Errorf("a signature with the mark inside: %v", err)
	}
}

// TestAPaymentOfNothingIsRefused, also if the request costs nothing.
func TestAPaymentOfNothingIsRefused(t *testing.T) {
	for _, row := range []struct {
		value policy.Micro
		want  string
	}{{1, ""}, {0, ReasonValue}, {-1, ReasonValue}} {
		p := &Payment{Authorization: Authorization{To: terms.PayTo, Value: row.value, ValidBefore: 1 << 39}, Signature: make([]byte, 65)}
		var r *Refusal
		if err := terms.Check(p, now); (err == nil) != (row.want == "") || errors.As(err, &r) && r.Reason != row.want {
			t.Errorf("%s: %v", row.value, err)
		}
	}
}

// TestPitfall8Windows: an authorization must be valid until its request was served and settled.
func TestPitfall8Windows(t *testing.T) {
	for _, row := range []struct {
		after, before int64
		want          string
	}{
		{0, 17 * 60, ""}, {0, 17*60 - 1, ReasonValidBefore}, {0, -1, ReasonValidBefore}, {-1, 17 * 60, ""}, {0, 1 << 39, ""},
	} {
		a := Authorization{ValidAfter: uint64(now.Unix() + row.after - 1), ValidBefore: uint64(now.Unix() + row.before)}
		if row.after == 0 {
			a.ValidAfter = 0
		}
		var r *Refusal
		err := terms.CheckWindow(&a, now)
		if errors.As(err, &r); err == nil && row.want != "" || err != nil && r.Reason != row.want {
			t.Errorf("%+v: %v", row, err)
		}
	}
	var r *Refusal
	if err := terms.CheckWindow(&Authorization{ValidAfter: uint64(now.Unix()), ValidBefore: 1 << 39}, now); !errors.As(err, &r) || r.Reason != ReasonValidAfter {
		t.Errorf("not valid yet: %v", err)
	}
}

// TestK82DecimalsAndNetworks: six decimals, and the same name of the chain everywhere.
func TestK82DecimalsAndNetworks(t *testing.T) {
	o := Offer{Quote: Quote{Amount: terms.Price(2 * policy.USD), Expires: now}, Signed: "s", Resource: Resource{URL: "https://x/y"}, Price: PriceQuote{Total: 2_001_000}}
	var v2 struct {
		Accepts []Requirement `json:"accepts"`
	}
	b, err := base64.StdEncoding.DecodeString(terms.Required(&o))
	if err != nil || json.Unmarshal(b, &v2) != nil || len(v2.Accepts) != 1 {
		t.Fatalf("%s: %v", b, err)
	}
	o.UpTo, o.Facilitator = true, Address{8}
	both := terms.requirements(&o)
	if len(both) != 2 || both[0].Scheme != SchemeUpTo || both[0].Extra.Facilitator != (Address{8}).String() || both[0].Amount != "2001000" || both[1] != v2.Accepts[0] {
		t.Errorf("with scheme upto: %+v", both)
	}
	if r := v2.Accepts[0]; r.Amount != "2001000" || r.Network != "eip155:84532" || r.MaxTimeoutSeconds != 1320 || r.Extra.Quote != "s" {
		t.Errorf("%+v", r)
	}
	var v1 struct {
		Accepts []requirementV1 `json:"accepts"`
		Price   map[string]json.Number
		Expiry  int64
		Scheme  string
	}
	if err := json.Unmarshal(terms.Body(&o), &v1); err != nil || len(v1.Accepts) != 1 {
		t.Fatal(err)
	}
	if r := v1.Accepts[0]; r.Amount != "2001000" || r.Network != "base-sepolia" || r.Resource != "https://x/y" || v1.Price["total_charged"] != "2.001000" || v1.Expiry != now.Unix() || v1.Scheme != "exact" {
		t.Errorf("%+v", v1)
	}
	for name, known := range networks {
		if want := map[string]string{"base": "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", "base-sepolia": "0x036cbd53842c5426634e7929541ec2318f3dcf7e"}[name]; known.USDC.Address.String() != want {
			t.Errorf("%s: %s", name, known.USDC.Address)
		}
		if k, ok := FindNetwork(known.Network.String()); !ok || k != known || known.Network.Name != name {
			t.Errorf("%s: %+v", name, k)
		}
	}
	if _, ok := FindNetwork("eip155:1"); ok || terms.Price(0) != 1500 {
		t.Error("an unknown network, or a price below the least")
	}
}

func TestFeesOfAReplacementAreHigher(t *testing.T) {
	f := Fees{big.NewInt(0), big.NewInt(100)}.Raised()
	if f.Tip.Int64() != 1 || f.Cap.Int64() != 126 {
		t.Errorf("%v", f)
	}
	if f := (Fees{}).Raised(); f.Tip != nil || f.Cap != nil {
		t.Error("nothing was sent before")
	}
}

func TestErrorsAreSentences(t *testing.T) {
	for _, err := range []error{refuse(ReasonValue, "too little"), &Revert{Reason: "no"}, &Mismatch{Detail: "no"}} {
		if err.Error() == "" {
			t.Errorf("%T", err)
		}
	}
	if s := (Settled{Success: true}).Encode(); s == "" {
		t.Error("no settlement")
	}
	if a := Account(Address{3}); a != "wallet_0300000000000000000000000000000000000000" {
		t.Error(a)
	}
}
