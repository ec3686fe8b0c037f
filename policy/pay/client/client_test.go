package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/evm"
	"bardo.money/gateway/policy/pay/outgoing"
)

const walletKey = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"

var (
	known, _ = pay.FindNetwork("base-sepolia")
	payee    = pay.Address{19: 0xaa}
	start    = time.Unix(1_900_000_000, 0)
)

// payeeTerms are the terms of a server, which verifies payments like a gateway.
func payeeTerms() *pay.Terms {
	return &pay.Terms{Network: known.Network, Asset: known.USDC, PayTo: payee, ServeTime: time.Minute, Margin: time.Minute, QuoteTTL: time.Minute}
}

// server is a payee.
type server struct {
	*httptest.Server
	t     *testing.T
	terms *pay.Terms
	node  *evm.Node

	version int
	price   policy.Micro
	upTo    bool
	change  func(*map[string]any)                       // of each offer
	then    func(w http.ResponseWriter, p *pay.Payment) // answers a verified payment; nil: 200 and a receipt

	mu     sync.Mutex
	nonces map[pay.Word]int
	unpaid int
}

func serve(t *testing.T, s *server) *server {
	t.Helper()
	s.t, s.terms, s.nonces = t, payeeTerms(), map[pay.Word]int{}
	if s.version == 0 {
		s.version = 2
	}
	if s.price == 0 {
		s.price = 1500
	}
	var err error
	s.node, err = evm.Open(t.Context(), pay.NodeOptions{URL: "http://127.0.0.1:1", Key: strings.Repeat("1", 64), Terms: s.terms})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version, text := 2, r.Header.Get("Payment-Signature")
	if text == "" {
		version, text = 1, r.Header.Get("X-Payment")
	}
	if text == "" {
		s.mu.Lock()
		s.unpaid++
		s.mu.Unlock()
		s.challenge(w)
		return
	}
	p, err := s.terms.Parse(text, version)
	if err == nil {
		err = s.terms.Check(p, start)
	}
	if err != nil || !s.node.Signed(p) || p.Value != s.price || version != s.version {
		s.t.Errorf("a wrong payment: %v, %+v", err, p)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.nonces[p.Nonce]++
	s.mu.Unlock()
	if s.then != nil {
		s.then(w, p)
		return
	}
	receipt(w, version, `{"success":true,"transaction":"0x`+strings.Repeat("ab", 32)+`","network":"eip155:84532"}`)
	_, _ = io.WriteString(w, "the answer")
}

func receipt(w http.ResponseWriter, version int, text string) {
	name := "Payment-Response"
	if version == 1 {
		name = "X-Payment-Response"
	}
	w.Header().Set(name, base64.StdEncoding.EncodeToString([]byte(text)))
}

// challenge answers with the price, in the version that the server speaks.
func (s *server) challenge(w http.ResponseWriter) {
	o := map[string]any{
		"scheme": "exact", "network": known.Network.String(), "amount": strconv.FormatInt(int64(s.price), 10), "asset": known.USDC.Address.String(), "payTo": payee.String(),
		"maxTimeoutSeconds": int64(s.terms.MaxTimeout().Seconds()), "extra": map[string]any{"name": known.USDC.Name, "version": known.USDC.Version, "quote": "q", "other": 1},
	}
	if s.version == 1 {
		o["network"], o["maxAmountRequired"] = known.Network.Name, o["amount"]
	}
	if s.upTo {
		facilitator, _ := s.node.UpTo()
		o["scheme"] = "upto"
		o["extra"].(map[string]any)["facilitatorAddress"] = facilitator.String()
	}
	if s.change != nil {
		s.change(&o)
	}
	text, err := json.Marshal(map[string]any{"x402Version": s.version, "error": "payment_required", "resource": map[string]any{"url": s.URL}, "accepts": []any{o}})
	if err != nil {
		s.t.Error(err)
	}
	if s.version == 2 {
		w.Header().Set("Payment-Required", base64.StdEncoding.EncodeToString(text))
		text = []byte(`{"accepts":[]}`)
	}
	w.WriteHeader(http.StatusPaymentRequired)
	_, _ = w.Write(text)
}

// received is how many authorizations the server was sent, and how often.
func (s *server) received() (authorizations, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nonces {
		times += n
	}
	return len(s.nonces), times
}

// payer is a wallet with a book in a file.
type payer struct {
	*client.Wallet
	path string
	now  time.Time
}

func newPayer(t *testing.T) *payer {
	t.Helper()
	key, err := client.ParseKey(walletKey)
	if err != nil {
		t.Fatal(err)
	}
	p := &payer{path: filepath.Join(t.TempDir(), "outgoing.db"), now: start}
	p.Wallet = &client.Wallet{Key: key, Purpose: "test", Now: func() time.Time { return p.now }, Rules: client.Rules{
		Assets: []client.Asset{{Network: known.Network, Token: known.USDC}}, Payees: []pay.Address{payee}, MaxPrice: 2000, MaxDaily: 1_000_000,
	}}
	p.restart(t)
	return p
}

// restart opens the book again, as after a crash.
func (p *payer) restart(t *testing.T) {
	t.Helper()
	b, err := outgoing.OpenBook(t.Context(), p.path, func() time.Time { return p.now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	p.Book = b
}

// get sends a request of a name.
func (p *payer) get(ctx context.Context, name, url string) (status int, body string, paid *client.Payment, err error) {
	resp, paid, err := p.Do(ctx, &client.Request{Name: name}, func(header, value string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		if header != "" {
			req.Header.Set(header, value)
		}
		return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	})
	if err != nil {
		return 0, "", paid, err
	}
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), paid, errors.Join(err, resp.Body.Close())
}

// onlyPayment returns the only authorization in the book.
func (p *payer) onlyPayment(t *testing.T) outgoing.Authorization {
	t.Helper()
	all, err := p.Book.Recent(t.Context(), 10)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d authorizations, %v", len(all), err)
	}
	return all[0]
}

// TestPricesOfBothVersionsArePaid, and of both schemes, with a signature that the payee accepts.
func TestPricesOfBothVersionsArePaid(t *testing.T) {
	for name, s := range map[string]*server{"version 1": {version: 1}, "version 2": {}, "upto": {upTo: true}} {
		t.Run(name, func(t *testing.T) {
			p := newPayer(t)
			p.Rules.Schemes = []pay.Scheme{pay.SchemeExact, pay.SchemeUpTo}
			serve(t, s)
			status, body, paid, err := p.get(t.Context(), "a", s.URL)
			if err != nil || status != http.StatusOK || body != "the answer" {
				t.Fatalf("%d %q %v", status, body, err)
			}
			if !paid.HasReceipt || !paid.Receipt.Success || paid.Tx == "" || paid.Value != 1500 || paid.To != payee {
				t.Errorf("the payment is %+v", paid)
			}
			if a := p.onlyPayment(t); a.State != outgoing.Answered || a.Header != "" || a.Tx != paid.Tx || a.UpTo != s.upTo || a.Nonce != paid.Nonce {
				t.Errorf("the book has %+v", a)
			}
		})
	}
}

// TestWhatCostsNothingIsNotPaid: a response without a price is returned unchanged.
func TestWhatCostsNothingIsNotPaid(t *testing.T) {
	p := newPayer(t)
	free := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(free.Close)
	status, _, paid, err := p.get(t.Context(), "a", free.URL)
	if status != http.StatusTeapot || paid != nil || err != nil {
		t.Errorf("%d, %+v, %v", status, paid, err)
	}
}

// drop closes the connection without a response.
func drop(t *testing.T) func(http.ResponseWriter, *pay.Payment) {
	t.Helper()
	return func(w http.ResponseWriter, _ *pay.Payment) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
	}
}

// TestPitfall13NothingIsSignedASecondTime while the outcome of the first is unknown: after a lost response, a refusal, a failure and a crash.
func TestPitfall13NothingIsSignedASecondTime(t *testing.T) {
	refuse := func(status int) func(http.ResponseWriter, *pay.Payment) {
		return func(w http.ResponseWriter, _ *pay.Payment) {
			receipt(w, 2, `{"success":false,"errorReason":"settlement_pending"}`)
			w.WriteHeader(status)
		}
	}
	for name, then := range map[string]func(http.ResponseWriter, *pay.Payment){
		"no answer": drop(t), "402 again": refuse(http.StatusPaymentRequired), "409": refuse(http.StatusConflict), "502": refuse(http.StatusBadGateway), "a redirection": refuse(http.StatusFound),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPayer(t)
			s := serve(t, &server{then: then})
			_, _, paid, err := p.get(t.Context(), "a", s.URL)
			if name == "no answer" {
				if u, ok := errors.AsType[*client.UnknownError](err); !ok || u.Payment.Value != 1500 {
					t.Fatalf("the error is %v", err)
				}
			} else if err != nil || paid.State != outgoing.Open || !strings.Contains(paid.Reason, "settlement_pending") {
				t.Fatalf("%+v, %v", paid, err)
			}
			first := p.onlyPayment(t)
			p.restart(t)
			if _, _, again, _ := p.get(t.Context(), "a", s.URL); again == nil || !again.Resent || again.Nonce != first.Nonce {
				t.Errorf("sent again: %+v", again)
			}
			p.now = time.Unix(int64(first.ValidBefore), 0)
			_, _, _, err = p.get(t.Context(), "a", s.URL)
			if d, ok := errors.AsType[*outgoing.UnresolvedError](err); !ok || d.First.Nonce != first.Nonce {
				t.Errorf("after its end: %v", err)
			}
			if n, times := s.received(); n != 1 || times != 2 || s.unpaid != 1 {
				t.Errorf("%d authorizations were sent, %d times, and %d prices asked for", n, times, s.unpaid)
			}
			if spent, err := p.Book.Spent(t.Context(), p.Key.Address(), "test"); spent != 1500 || err != nil {
				t.Errorf("%s counts as spent, %v", spent, err)
			}
		})
	}
}

// TestPitfall13InParallel: requests of one name have one authorization.
func TestPitfall13InParallel(t *testing.T) {
	p := newPayer(t)
	s := serve(t, &server{then: drop(t)})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, _, _, err := p.get(t.Context(), "a", s.URL); err == nil {
				t.Error("a lost answer is no error")
			}
		})
	}
	all.Wait()
	if n, _ := s.received(); n != 1 {
		t.Errorf("%d authorizations", n)
	}
}

// TestPitfall14WhatTheRulesDoNotAllowIsNotSigned: another payee, token, chain or price.
func TestPitfall14WhatTheRulesDoNotAllowIsNotSigned(t *testing.T) {
	set := func(name string, v any) func(*map[string]any) { return func(o *map[string]any) { (*o)[name] = v } }
	extra := func(name string, v any) func(*map[string]any) {
		return func(o *map[string]any) { (*o)["extra"].(map[string]any)[name] = v }
	}
	for _, row := range []struct {
		name   string
		change func(*map[string]any)
		want   string
	}{
		{"payee", set("payTo", pay.Address{1}.String()), "the payee 0x0100000000000000000000000000000000000000 is not allowed"},
		{"token", set("asset", pay.Address{2}.String()), "the token 0x0200000000000000000000000000000000000000 is not allowed"},
		{"chain", set("network", "eip155:8453"), "the network is not allowed"},
		{"the old name of the chain", set("network", "base-sepolia"), "the network is not allowed"},
		{"price", set("amount", "2001"), "it costs $0.002001, and a request may cost $0.002000"},
		{"price of zero", set("amount", "0"), "is not a whole number from 1"},
		{"price below zero", set("amount", "-5"), "is not a whole number from 1"},
		{"giant price", set("amount", strings.Repeat("9", 100)), "is not a whole number from 1"},
		{"price that is no text", set("amount", 5), "an offer cannot be read"},
		{"scheme", set("scheme", "upto"), "the scheme is not allowed"},
		{"unknown scheme", set("scheme", "batch"), "the scheme is not allowed"},
		{"validity", set("maxTimeoutSeconds", 3601), "at most 1h0m0s is allowed"},
		{"no validity", set("maxTimeoutSeconds", 0), "valid for 0 s"},
		{"overflowing validity", set("maxTimeoutSeconds", int64(1)<<62), "is allowed"},
		{"domain", extra("name", "Other"), `the token is called "Other"`},
		{"domain's version", extra("version", "1"), `version "1", not`},
		{"another kind of transfer", extra("assetTransferMethod", "permit2"), `transfers by "permit2" are not made`},
		{"no address", set("payTo", "0x12"), "the payee is not 0x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPayer(t)
			s := serve(t, &server{change: row.change})
			_, _, paid, err := p.get(t.Context(), "a", s.URL)
			if r, ok := errors.AsType[*client.Refusal](err); !ok || paid != nil || !strings.Contains(r.Error(), row.want) {
				t.Errorf("%+v, %v", paid, err)
			}
			all, err := p.Book.Recent(t.Context(), 1)
			if n, _ := s.received(); n != 0 || len(all) != 0 || err != nil {
				t.Errorf("%d authorizations were sent, %d are in the book, %v", n, len(all), err)
			}
		})
	}
}

// TestPitfall14AnAnswerWithoutAPriceIsRefused.
func TestPitfall14AnAnswerWithoutAPriceIsRefused(t *testing.T) {
	for _, body := range []string{"", "pay!", `{}`, `{"x402Version":1,"accepts":[]}`, `{"x402Version":2,"accepts":[{}]}`, `{"x402Version":1,"accepts":[` + strings.Repeat(`{},`, 40) + `{}]}`} {
		p := newPayer(t)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		if _, _, _, err := p.get(t.Context(), "a", s.URL); !isRefusal(err) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*client.Refusal](err)
	return ok
}

// TestADaysCapHoldsInParallel: requests of many names, with a cap for three.
func TestADaysCapHoldsInParallel(t *testing.T) {
	p := newPayer(t)
	p.Rules.MaxDaily = 3*1500 + 1499
	s := serve(t, &server{})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, _, _, err := p.get(t.Context(), fmt.Sprint(i), s.URL)
			if c, ok := errors.AsType[*outgoing.CapError](err); err != nil && (!ok || c.Spent != 4500 || c.Cap != 5999) {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	if n, _ := s.received(); n != 3 {
		t.Errorf("%d were paid", n)
	}
	p.now = p.now.Add(24*time.Hour + time.Second)
	s.then = func(w http.ResponseWriter, _ *pay.Payment) { w.WriteHeader(http.StatusOK) }
	if _, err := p.Book.Spent(t.Context(), p.Key.Address(), "test"); err != nil {
		t.Error(err)
	}
	if spent, err := p.Book.Spent(t.Context(), p.Key.Address(), "test"); spent != 0 || err != nil {
		t.Errorf("a day later %s counts as spent, %v", spent, err)
	}
}

// TestKeysAreNotPrinted in any form.
func TestKeysAreNotPrinted(t *testing.T) {
	p := newPayer(t)
	if got := p.Key.Address().String(); got != "0x70997970c51812dc3a010c7d01b50e0d17dc79c8" {
		t.Errorf("the address is %s", got)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := strings.ToLower(fmt.Sprintf(format, *p.Wallet)); strings.Contains(got, walletKey[:16]) {
			t.Errorf("%s shows the key", format)
		}
	}
	for _, text := range []string{"", "0x", strings.Repeat("0", 64), strings.Repeat("f", 64), strings.Repeat("g", 64), walletKey + "00", walletKey[2:]} {
		if _, err := client.ParseKey(text); err == nil || text != "" && len(text) > 2 && strings.Contains(err.Error(), text[:8]) {
			t.Errorf("%q is read: %v", text, err)
		}
	}
}
