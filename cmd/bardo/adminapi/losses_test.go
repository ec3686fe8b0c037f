package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// lostEach is the amount of each failed payment.
const lostEach = 5000

// loser is a wallet whose payments fail.
type loser struct {
	*server
	*book.Book
}

func startLoser(t *testing.T) *loser {
	t.Helper()
	s := start(t)
	b, err := book.Open(t.Context(), s.payments, time.Now)
	if err == nil {
		_, err = b.Claim(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &loser{s, b}
}

// pay records a request that was served for a payment.
func (l *loser) pay(request string, from byte) book.Payment {
	l.Helper()
	terms := &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}}
	p := &pay.Payment{Authorization: pay.Authorization{From: pay.Address{from}, Value: lostEach, ValidBefore: 1 << 39, Nonce: pay.Word([]byte(fmt.Sprintf("%-32s", request)))}, Signature: make([]byte, 65)}
	row, err := l.Reserve(l.Context(), terms, p, request, 1, book.Limits{Failed: true})
	if err == nil {
		err = l.MarkServed(l.Context(), row.ID, lostEach, lostEach)
	}
	c := ledger.Charge{RequestID: request, Account: pay.Account(p.From), Amount: lostEach}
	if err == nil {
		var h *ledger.Hold
		if h, err = l.books.CreditServed(l.Context(), c.Account, lostEach, 0, row.Reference(), &c, nil); err == nil {
			_, err = l.books.Capture(l.Context(), h, c)
		}
	}
	if err == nil {
		err = l.MarkBooked(l.Context(), row.ID)
	}
	if err != nil {
		l.Fatal(err)
	}
	return row
}

// fail marks a payment as failed; book also books its loss.
func (l *loser) fail(p *book.Payment, book bool) {
	l.Helper()
	err := l.MarkFailed(l.Context(), p.ID, "cancelled")
	if err == nil && book {
		if _, err = l.books.TakeBack(l.Context(), pay.Account(p.From), lostEach, p.Reference()); err == nil {
			err = l.MarkLost(l.Context(), p.ID)
		}
	}
	if err != nil {
		l.Fatal(err)
	}
}

// lose records a request that was served for a payment that fails.
func (l *loser) lose(request string, from byte, book bool) {
	l.Helper()
	p := l.pay(request, from)
	l.fail(&p, book)
}

// TestLossesAreForgivenOverHTTP: one by its request, or all of a wallet, once; lists and the audit show it.
func TestLossesAreForgivenOverHTTP(t *testing.T) {
	s := startLoser(t)
	const at = "/payments/forgive"
	for i := range 3 {
		s.lose(fmt.Sprint("req_", i), 1, true)
	}
	s.lose("req_other", 2, true)
	s.lose("req_late", 1, false)
	payer := pay.Address{1}.String()
	for again := range 2 {
		out := s.do(http.MethodPost, at, `{"request_id":"req_1","reason":"our node was away"}`, http.StatusOK)
		if out["payer"] != payer || out["forgiven_usd"] != 0.005*float64(1-again) || out["repeated"] != (again == 1) || out["owed_usd"] != 0.01 || len(out["losses"].([]any)) != 1 || len(out["rest"].([]any)) != 2 || out["later"] != nil {
			t.Errorf("%v", out)
		}
		s.do(http.MethodPost, at, `{"request_id":"req_1","reason":"another"}`, http.StatusOK)
	}
	out := s.do(http.MethodPost, at, `{"payer":"`+payer+`","reason":"paid by invoice"}`, http.StatusOK)
	if out["forgiven_usd"] != 0.01 || out["owed_usd"] != 0.0 || len(out["losses"].([]any)) != 3 || fmt.Sprint(out["later"]) != "[req_late]" {
		t.Errorf("%v", out)
	}
	if b := s.do(http.MethodGet, "/keys/"+string(pay.Account(pay.Address{1}))+"/balance", "", http.StatusOK); b["owed_usd"] != 0.0 || b["blocked"] != false {
		t.Errorf("%v", b)
	}
	if b := s.do(http.MethodGet, "/keys/"+string(pay.Account(pay.Address{2}))+"/balance", "", http.StatusOK); b["owed_usd"] != 0.005 || b["blocked"] != true {
		t.Errorf("another wallet: %v", b)
	}
	forgiven := map[string]any{}
	for _, p := range data(s.do(http.MethodGet, "/payments?state=failed", "", http.StatusOK)) {
		m := p.(map[string]any)
		if forgiveness, ok := m["forgiven"].(map[string]any); ok {
			forgiven[m["request_id"].(string)] = fmt.Sprintf("%v %v %v", forgiveness["usd"], forgiveness["via"], forgiveness["reason"])
		}
	}
	if fmt.Sprint(forgiven) != "map[req_0:0.005 http paid by invoice req_1:0.005 http our node was away req_2:0.005 http paid by invoice]" {
		t.Errorf("%v", forgiven)
	}
	if r := s.do(http.MethodGet, "/audit", "", http.StatusOK); r["ok"] != true || fmt.Sprint(r["forgiven"]) != "map[losses:3 usd:0.015]" {
		t.Errorf("%v", r)
	}
	if log := s.log.String(); !strings.Contains(log, "operation=forgiveLosses via=http target=req_1 usd=0.005000") || !strings.Contains(log, "target="+payer+" usd=0.010000") || strings.Contains(log, "node") {
		t.Error(log)
	}
}

// TestWhatIsNoLossIsNotForgivenOverHTTP: each refusal states the reason, and changes nothing.
func TestWhatIsNoLossIsNotForgivenOverHTTP(t *testing.T) {
	s := startLoser(t)
	s.lose("req_1", 1, true)
	s.lose("req_late", 3, false)
	s.pay("req_served", 4)
	payer := func(n byte) string { return pay.Address{n}.String() }
	for _, c := range []struct {
		body     string
		status   int
		contains string
	}{
		{`{"request_id":"req_2","reason":"r"}`, http.StatusNotFound, "no wallet has paid for a request req_2"},
		{`{"request_id":"req_served","reason":"r"}`, http.StatusConflict, "the payment of request req_served is no loss: its state is served"},
		{`{"request_id":"req_late","reason":"r"}`, http.StatusConflict, "is not booked yet"},
		{`{"payer":"` + payer(3) + `","reason":"r"}`, http.StatusConflict, "is not booked yet"},
		{`{"payer":"` + payer(4) + `","reason":"r"}`, http.StatusNotFound, "there is no loss of wallet " + payer(4)},
		{`{"payer":"` + payer(5) + `","reason":"r"}`, http.StatusNotFound, "there is no loss of wallet " + payer(5)},
		{`{"payer":"wallet_1","reason":"r"}`, http.StatusBadRequest, "payer: expected 0x"},
		{`{"payer":"` + payer(1) + `","request_id":"req_1","reason":"r"}`, http.StatusBadRequest, "request_id: give it, or payer"},
		{`{"reason":"r"}`, http.StatusBadRequest, "request_id: give it, or payer"},
		{`{"request_id":"","reason":"r"}`, http.StatusBadRequest, "the id of no request"},
		{`{"request_id":"req_1","reason":" "}`, http.StatusBadRequest, "reason is empty"},
		{`{"request_id":"req_1","reason":"a\u0007"}`, http.StatusBadRequest, "cannot be printed"},
		{`{"request_id":"req_1","reason":"` + strings.Repeat("x", 501) + `"}`, http.StatusBadRequest, "longer than 500 bytes"},
	} {
		s.refuses(http.MethodPost, "/payments/forgive", c.body, c.status, c.contains)
	}
	if b := s.do(http.MethodGet, "/keys/"+string(pay.Account(pay.Address{1}))+"/balance", "", http.StatusOK); b["owed_usd"] != 0.005 {
		t.Errorf("%v", b)
	}
}

func TestWithoutPaymentsNothingIsForgiven(t *testing.T) {
	s := start(t)
	s.refuses(http.MethodPost, "/payments/forgive", `{"request_id":"req_1","reason":"r"}`, http.StatusNotFound, "no wallet has paid here")
}
