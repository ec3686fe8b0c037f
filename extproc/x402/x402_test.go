package x402

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
	"bardo.money/gateway/policy/pay/till"
)

// chain accepts everything, or as scripted, and settles nothing.
type chain struct {
	pay.Chain
	refuses error
	strange bool // no signature is that of an account without code
	upTo    bool // the scheme is taken
}

func (c *chain) UpTo() (pay.Address, bool) { return pay.Address{8}, c.upTo }

func (c *chain) Signed(*pay.Payment) bool                   { return !c.strange }
func (c *chain) Verify(context.Context, *pay.Payment) error { return c.refuses }
func (c *chain) Head(context.Context) (pay.Block, error)    { return pay.Block{Time: time.Now()}, nil }

// subject is a request.
type subject struct{ stream bool }

func (subject) Digest() [32]byte { return [32]byte{7} }
func (s subject) Streams() bool  { return s.stream }
func (subject) Estimate() meter.Estimate {
	return meter.Estimate{URL: "https://x/v1", InputTokens: 3, OutputTokens: 4, Model: "m", ProviderCost: 8_000_000_000}
}

type counter struct {
	*Counter
	chain *chain
	books *ledger.Ledger
	book  *book.Book

	validBefore int64 // of all payments: payments with one nonce and amount are the same authorization
}

func open(t *testing.T) *counter {
	t.Helper()
	dir := t.TempDir()
	l, err := ledger.Open(t.Context(), filepath.Join(dir, "bardo.db"), ledger.Options{Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := book.Open(t.Context(), book.InFile(filepath.Join(dir, "payments.db")), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(b.Close(), l.Close()) })
	terms := &pay.Terms{Network: pay.Network{ID: 84532, Name: "base-sepolia"}, Asset: pay.Token{Name: "USD Coin", Version: "2"}, Fee: 1000, QuoteTTL: time.Minute, ServeTime: time.Minute, Margin: time.Minute}
	c := &chain{}
	tl := till.New(till.Options{Terms: terms, Signer: pay.NewQuoteSigner([]byte("s"), terms), Chain: c, Book: b, Ledger: l, Limits: book.Limits{Exposure: 50_000}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	return &counter{Counter: New(tl, l, Options{SettleWait: time.Millisecond, Checks: 1}), chain: c, books: l, book: b, validBefore: time.Now().Unix() + 600}
}

// paid returns the headers of a request with a payment.
func (c *counter) paid(nonce string, amount string) header.List {
	text, _ := json.Marshal(map[string]any{"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": map[string]any{
		"signature": "0x" + strings.Repeat("ab", 65), "authorization": map[string]any{
			"from": pay.Address{3}.String(), "to": pay.Address{}.String(), "value": amount, "validAfter": "0", "validBefore": strconv.FormatInt(c.validBefore, 10), "nonce": "0x" + strings.Repeat(nonce, 64),
		},
	}})
	return header.List{{Name: "x-payment", Value: base64.StdEncoding.EncodeToString(text)}}
}

// payer returns the payer of such a request.
func (c *counter) payer(t *testing.T, h header.List, stream bool) (policy.Principal, meter.Payer) {
	t.Helper()
	who, p, ok, err := c.Payer(h, subject{stream})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	return who, p
}

// refusal returns a fault's kind, and the protocol's reason if there is a price.
func refusal(t *testing.T, err error) string {
	t.Helper()
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok {
		t.Fatalf("%v is no fault", err)
	}
	c, ok := errors.AsType[*meter.Challenge](err)
	if !ok || c.Body == nil {
		return string(f.Kind)
	}
	var b struct{ Error string }
	if json.Unmarshal(c.Body, &b) != nil || !c.Header.Has(headerRequired) {
		t.Fatalf("the price is %s", c.Body)
	}
	return string(f.Kind) + " " + b.Error
}

func TestWhoSendsNothingIsToldThePrice(t *testing.T) {
	c := open(t)
	if _, _, ok, err := c.Payer(nil, subject{}); ok || err != nil {
		t.Error("there is no payment")
	}
	who, a, err := c.Quote(nil, subject{})
	if err != nil || who.Account != "" || !who.Prepaid || !a.Immediate() || a.Admit(t.Context()) != nil || a.ReserveNow("r", 1) || a.ReadBalance(t.Context()) != nil {
		t.Errorf("%+v", who)
	}
	err = a.Reserve(t.Context(), "r", 9000)
	if got := refusal(t, err); got != "payment_required payment_required" {
		t.Error(got)
	}
	ch, _ := errors.AsType[*meter.Challenge](err)
	var b struct {
		Price     map[string]json.Number
		Inference struct{ EstimatedInputTokens int }
	}
	if json.Unmarshal(ch.Body, &b) != nil || b.Price["total_charged"] != "0.010000" || b.Price["margin"] != "0.001000" || b.Price["settlement_fee"] != "0.001000" || b.Inference.EstimatedInputTokens != 3 {
		t.Errorf("%s", ch.Body)
	}
	if most, ok := a.Limit(); most != 0 || !ok || a.Headers(nil) != nil {
		t.Error("nothing is paid for")
	}
	if _, known := a.Balance(); known || a.(meter.PerRequest).Account() != "" {
		t.Error("nobody has a balance")
	}
	if _, err := a.Settle(t.Context(), ledger.Charge{RequestID: "r", Status: "refused"}, false); err != nil {
		t.Error(err)
	}
	a.Release()
}

// TestAnAllowanceThatIsMissingIs412, as the protocol requires, with the same price.
func TestAnAllowanceThatIsMissingIs412(t *testing.T) {
	c := open(t)
	c.chain.refuses, c.chain.upTo = &pay.Refusal{Reason: pay.ReasonAllowance}, true
	_, p := c.payer(t, c.paid("1", "10000"), false)
	err := p.Reserve(t.Context(), "r1", 9000)
	f, _ := errors.AsType[*fault.Fault](err)
	ch, _ := errors.AsType[*meter.Challenge](err)
	if got := refusal(t, err); got != "payment_required "+pay.ReasonAllowance || f.HTTPStatus() != 412 {
		t.Errorf("%s, %d", got, f.HTTPStatus())
	}
	var v2 struct{ Accepts []pay.Requirement }
	text, _ := base64.StdEncoding.DecodeString(ch.Header.Get(headerRequired))
	if json.Unmarshal(text, &v2) != nil || len(v2.Accepts) != 2 || v2.Accepts[0].Scheme != pay.SchemeUpTo || v2.Accepts[0].Extra.Facilitator != (pay.Address{8}).String() {
		t.Errorf("%s", text)
	}
}

// TestPitfall10UpToIsNoWayAroundSettlingFirst: it is only offered for lower prices.
func TestPitfall10UpToIsNoWayAroundSettlingFirst(t *testing.T) {
	c := open(t)
	c.chain.upTo, c.till.SettleFirst = true, 10_000
	for schemes, price := range map[int]policy.Micro{2: 8999, 1: 9000} { // and a fee of 1000
		_, a, err := c.Quote(nil, subject{})
		if err != nil {
			t.Fatal(err)
		}
		ch, _ := errors.AsType[*meter.Challenge](a.Reserve(t.Context(), "r", price))
		var v2 struct{ Accepts []pay.Requirement }
		text, _ := base64.StdEncoding.DecodeString(ch.Header.Get(headerRequired))
		if json.Unmarshal(text, &v2) != nil || len(v2.Accepts) != schemes || v2.Accepts[schemes-1].Scheme != pay.SchemeExact {
			t.Errorf("%s: %s", price, text)
		}
	}
}

func TestAPaymentIsTakenChargedAndAnswered(t *testing.T) {
	c := open(t)
	who, p := c.payer(t, c.paid("1", "10000"), false)
	if who.Account != "" || p.Immediate() || p.ReserveNow("r", 1) || p.Admit(t.Context()) != nil {
		t.Errorf("a wallet that never paid here: %+v", who)
	}
	if err := p.Reserve(t.Context(), "r1", 9000); err != nil {
		t.Fatal(err)
	}
	if most, ok := p.Limit(); most != 9000 || !ok || !p.ReserveNow("r1", 9500) || p.Reserve(t.Context(), "r1", 9500) != nil {
		t.Error("what is asked for later is covered by what was paid")
	}
	r, err := p.Settle(t.Context(), ledger.Charge{RequestID: "r1", Amount: 4000}, true)
	if err != nil || r.Charged != 4000 || r.Balance != 5000 {
		t.Fatalf("%+v, %v", r, err)
	}
	h := p.Headers(nil)
	if got := p.(meter.PerRequest).State(); got != "pending" {
		t.Error(got)
	}
	if left, known := p.Balance(); left != 5000 || !known || h.Get("x-bardo-balance") != "0.005000" || p.ReadBalance(t.Context()) != nil {
		t.Errorf("%v", h)
	}
	var s pay.Settled
	text, _ := base64.StdEncoding.DecodeString(h.Get(headerResponse1))
	if json.Unmarshal(text, &s) != nil || s.Success || s.ErrorReason != pay.ReasonPending || s.Network != "base-sepolia" || s.Payer != (pay.Address{3}).String() {
		t.Errorf("%s", text)
	}
	p.Release()
	if got, err := c.book.ByID(t.Context(), 1); err != nil || got.Service != book.Served {
		t.Errorf("%+v, %v", got, err)
	}
	who, again := c.payer(t, c.paid("1", "10000"), true)
	if who.Account != pay.Account(pay.Address{3}) {
		t.Errorf("a wallet that has paid: %+v", who)
	}
	if got := refusal(t, again.Reserve(t.Context(), "r2", 9000)); got != "payment_replayed" {
		t.Error(got)
	}
}

// TestK81WhatCostsNothingIsReleased, and can be paid with again.
func TestK81WhatCostsNothingIsReleased(t *testing.T) {
	c := open(t)
	for _, owed := range []bool{true, false} {
		_, p := c.payer(t, c.paid("2", "10000"), true)
		if err := p.Reserve(t.Context(), "r", 9000); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Settle(t.Context(), ledger.Charge{RequestID: "r"}, owed); err != nil || p.Headers(nil) != nil || p.(meter.PerRequest).State() != "released" {
			t.Fatal(err)
		}
	}
	_, p := c.payer(t, c.paid("2", "10000"), true)
	if err := p.Reserve(t.Context(), "r", 9000); err != nil {
		t.Fatal(err)
	}
	p.Release()
	p.Release()
	if got, err := c.book.ByID(t.Context(), 1); err != nil || got.Service != book.Released || got.Settlement != book.None {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestEachRefusalIsItsOwnAnswer(t *testing.T) {
	c := open(t)
	for _, row := range []struct {
		about   string
		h       header.List
		chain   error
		strange bool
		want    string
	}{
		{"too little", c.paid("3", "5000"), nil, false, "payment_required " + pay.ReasonValue},
		{"the chain refuses", c.paid("3", "10000"), &pay.Refusal{Reason: pay.ReasonFunds}, true, "payment_required " + pay.ReasonFunds},
		{"the chain does not answer", c.paid("3", "10000"), errors.New("down"), false, "gateway_unavailable"},
		{"too much on its way", c.paid("4", "60000"), nil, false, "rate_limit_exceeded"},
		{"a blocked payer", c.paid("4", "10000"), &pay.Refusal{Reason: pay.ReasonBlocked}, false, "payment_required"},
	} {
		c.chain.refuses, c.chain.strange = row.chain, row.strange
		_, p := c.payer(t, row.h, false)
		if got := refusal(t, p.Reserve(t.Context(), "r", 9000)); got != row.want {
			t.Errorf("%s: %s", row.about, got)
		}
	}
	c.chain.refuses = nil
	if _, _, _, err := c.Payer(header.List{{Name: headerPayment, Value: "%"}}, subject{}); refusal(t, err) != "invalid_request" {
		t.Error(err)
	}
	wrong := c.paid("5", "0")
	_, p := c.payer(t, wrong, false)
	if got := refusal(t, p.Reserve(t.Context(), "r", 9000)); got != "payment_required "+pay.ReasonValue {
		t.Error(got)
	}
}

// TestVerificationWaitsItsTurn, for a limited time.
func TestVerificationWaitsItsTurn(t *testing.T) {
	c := open(t)
	c.checks <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, p := c.payer(t, c.paid("6", "10000"), false)
	if got := refusal(t, p.Reserve(ctx, "r", 9000)); got != "overloaded" {
		t.Error(got)
	}
	<-c.checks
	if err := p.Reserve(t.Context(), "r", 9000); err != nil || p.(meter.PerRequest).Account() != pay.Account(pay.Address{3}) {
		t.Error(err)
	}
}

// TestAWalletsCreditLowersItsPrice, only for the wallet itself and for payments that have arrived, and is used once.
func TestAWalletsCreditLowersItsPrice(t *testing.T) {
	c := open(t)
	if err := c.books.CreditWallet(t.Context(), pay.Account(pay.Address{3}), 6000, 0, "earlier"); err != nil {
		t.Fatal(err)
	}
	price := func(wallet string) string {
		t.Helper()
		_, a, err := c.Quote(header.List{{Name: headerWallet, Value: wallet}}, subject{})
		if err != nil {
			t.Fatal(err)
		}
		ch, ok := errors.AsType[*meter.Challenge](a.Reserve(t.Context(), "r", 9000))
		var b struct{ Price map[string]json.Number }
		if !ok || json.Unmarshal(ch.Body, &b) != nil {
			t.Fatal("no price")
		}
		return b.Price["total_charged"].String() + " " + b.Price["credit"].String()
	}
	if got := price(pay.Address{3}.String()); got != "0.004000 0.006000" {
		t.Error(got)
	}
	if got := price(pay.Address{4}.String()); got != "0.010000 0.000000" {
		t.Errorf("another wallet: %s", got)
	}
	_, p := c.payer(t, c.paid("7", "4000"), true)
	if err := p.Reserve(t.Context(), "r1", 9000); err != nil {
		t.Fatal(err)
	}
	if most, _ := p.Limit(); most != 9000 {
		t.Errorf("it may cost %s", most)
	}
	_, second := c.payer(t, c.paid("8", "4000"), true)
	if got := refusal(t, second.Reserve(t.Context(), "r2", 9000)); got != "payment_required "+pay.ReasonValue {
		t.Errorf("the same credit again: %s", got)
	}
	if r, err := p.Settle(t.Context(), ledger.Charge{RequestID: "r1", Amount: 8500}, true); err != nil || r.Charged != 8500 || r.Balance != 500 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := price(pay.Address{3}.String()); got != "0.010000 0.000000" {
		t.Errorf("while the payment is on its way: %s", got)
	}
	if _, _, err := c.Quote(header.List{{Name: headerWallet, Value: "0x1"}}, subject{}); refusal(t, err) != "invalid_request" {
		t.Error(err)
	}
}

// TestWhatAWalletOwesRaisesItsPrice: it is stated, and paid by scheme exact only, with the next payment, before a request is served.
func TestWhatAWalletOwesRaisesItsPrice(t *testing.T) {
	c := open(t)
	c.chain.upTo = true
	account := pay.Account(pay.Address{3})
	if err := c.books.CreditWallet(t.Context(), account, 6000, 6000, "lost"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.books.TakeBack(t.Context(), account, 6000, "lost"); err != nil {
		t.Fatal(err)
	}
	want := func(err error, price string) {
		t.Helper()
		ch, ok := errors.AsType[*meter.Challenge](err)
		var b struct {
			Accepts []struct{ Scheme string }
			Price   map[string]json.Number
		}
		if !ok || json.Unmarshal(ch.Body, &b) != nil {
			t.Fatalf("no price: %v", err)
		}
		if got := b.Price["total_charged"].String() + " " + b.Price["credit"].String() + " " + b.Price["owed"].String(); got != price {
			t.Errorf("a price of %s, want %s", got, price)
		}
		if required := required(t, ch); strings.Contains(required, `"upto"`) != strings.HasSuffix(price, " ") {
			t.Errorf("for %s: %s", price, required)
		}
	}
	ask := func(wallet pay.Address) error {
		t.Helper()
		_, a, err := c.Quote(header.List{{Name: headerWallet, Value: wallet.String()}}, subject{})
		if err != nil {
			t.Fatal(err)
		}
		return a.Reserve(t.Context(), "r", 9000)
	}
	want(ask(pay.Address{3}), "0.016000 0.000000 0.006000")
	want(ask(pay.Address{4}), "0.010000 0.000000 ")
	_, p := c.payer(t, c.paid("7", "15999"), true)
	want(p.Reserve(t.Context(), "r1", 9000), "0.016000 0.000000 0.006000")
	_, p = c.payer(t, c.paid("7", "9000"), true)
	if byPermit, ok := p.(*payer); ok {
		byPermit.payment.UpTo = true
	}
	want(p.Reserve(t.Context(), "r1", 9000), "0.016000 0.000000 0.006000")
	_, p = c.payer(t, c.paid("8", "17000"), true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- p.Reserve(ctx, "r2", 9000) }() // it is settled first, as of a wallet that owes, and this chain settles nothing
	for row, err := c.book.ByID(t.Context(), 1); err != nil || row.Captured != 17_000 || row.Request != "r2"; row, err = c.book.ByID(t.Context(), 1) {
		select {
		case err := <-served:
			t.Fatalf("before its payment is stored: %v", err)
		case <-time.Tick(time.Millisecond):
		}
	}
	cancel()
	if err := <-served; err == nil {
		t.Error("a wallet that owes is served before it has paid")
	}
}

// required returns the header of a challenge.
func required(t *testing.T, c *meter.Challenge) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(c.Header.Get(headerRequired))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCreditThatIsNotNeededIsGivenBack.
func TestCreditThatIsNotNeededIsGivenBack(t *testing.T) {
	c := open(t)
	if err := c.books.CreditWallet(t.Context(), pay.Account(pay.Address{3}), 6000, 0, "earlier"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, p := c.payer(t, c.paid("9", "4000"), true)
		if err := p.Reserve(t.Context(), "r1", 9000); err != nil {
			t.Fatal(err)
		}
		p.Release()
	}
}

// TestAPaymentThatIsSettledFirstAndIsOnItsWay is not requested again: its request was not served, and the answer states the payment's state.
func TestAPaymentThatIsSettledFirstAndIsOnItsWay(t *testing.T) {
	c := open(t)
	c.till.SettleFirst = 1
	_, p := c.payer(t, c.paid("1", "10000"), false)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Reserve(ctx, "r1", 9000) }()
	for state := []byte(nil); !strings.Contains(string(state), `"state":"served"`); runtime.Gosched() {
		select {
		case err := <-done:
			t.Fatalf("it does not wait for the transfer: %v", err)
		default:
		}
		var err error
		if state, _, err = c.Of(t.Context(), "r1"); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	err := <-done
	f, ok := errors.AsType[*fault.Fault](err)
	ch, _ := errors.AsType[*meter.Challenge](err)
	if !ok || f.Kind != fault.Unavailable || f.ShouldRetry() || ch == nil || ch.Body != nil || !ch.Header.Has(headerResponse) || ch.Header.Has(headerRequired) {
		t.Errorf("%v", err)
	}
	if state, ok, err := c.Of(t.Context(), "r1"); !ok || err != nil || !strings.Contains(string(state), `"state":"served"`) {
		t.Errorf("%s, %v", state, err)
	}
	if _, ok, err := c.Of(t.Context(), "r2"); ok || err != nil {
		t.Error("a payment of a request without one")
	}
}

// TestAWalletIsKnownByItsSignature: a caller that only names a wallet that has paid is not treated as it.
func TestAWalletIsKnownByItsSignature(t *testing.T) {
	c := open(t)
	_, p := c.payer(t, c.paid("1", "10000"), true)
	if err := p.Reserve(t.Context(), "r1", 9000); err != nil {
		t.Fatal(err)
	}
	if who, _ := c.payer(t, c.paid("2", "10000"), true); who.Account != pay.Account(pay.Address{3}) {
		t.Errorf("a wallet that has paid: %q", who.Account)
	}
	c.chain.strange = true
	if who, _ := c.payer(t, c.paid("2", "10000"), true); who.Account != "" {
		t.Errorf("who has not signed is %q", who.Account)
	}
}

// TestACreditLowersNoPriceBelowTheLeast that is accepted.
func TestACreditLowersNoPriceBelowTheLeast(t *testing.T) {
	c := open(t)
	c.till.Terms.MinPrice = 2000
	if err := c.books.CreditWallet(t.Context(), pay.Account(pay.Address{3}), 60_000, 0, "earlier"); err != nil {
		t.Fatal(err)
	}
	_, a, err := c.Quote(header.List{{Name: headerWallet, Value: pay.Address{3}.String()}}, subject{})
	if err != nil {
		t.Fatal(err)
	}
	ch, ok := errors.AsType[*meter.Challenge](a.Reserve(t.Context(), "r", 9000))
	var b struct{ Price map[string]json.Number }
	if !ok || json.Unmarshal(ch.Body, &b) != nil || b.Price["total_charged"] != "0.002000" || b.Price["credit"] != "0.008000" {
		t.Errorf("the price is %v", b.Price)
	}
	_, p := c.payer(t, c.paid("7", "2000"), true)
	if err := p.Reserve(t.Context(), "r1", 9000); err != nil {
		t.Error(err)
	}
}
