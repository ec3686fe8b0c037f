package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPaymentsOverHTTP: the latest first, by wallet and state, page by page; the audit compares them with the ledger.
func TestPaymentsOverHTTP(t *testing.T) {
	s := start(t)
	if out := s.do(http.MethodGet, "/payments", "", http.StatusOK); len(data(out)) != 0 || out["has_more"] != false {
		t.Errorf("without a store: %v", out)
	}
	b, err := book.Open(t.Context(), s.payments, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	terms := &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}, Fee: 1000}
	for i := range 3 {
		p := &pay.Payment{Authorization: pay.Authorization{From: pay.Address{byte(1 + i%2)}, Value: 5000, ValidBefore: 1 << 39, Nonce: pay.Word{byte(i)}}, Signature: make([]byte, 65)}
		row, err := b.Reserve(t.Context(), terms, p, fmt.Sprint("req_", i), 1, book.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			err = b.MarkServed(t.Context(), row.ID, 100, 5000)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := s.do(http.MethodGet, "/payments?limit=2", "", http.StatusOK)
	latest := data(first)[0].(map[string]any)
	if len(data(first)) != 2 || first["has_more"] != true || latest["request_id"] != "req_2" || latest["state"] != "serving" || latest["authorized_usd"] != 0.005 {
		t.Errorf("%v", first)
	}
	rest := s.do(http.MethodGet, fmt.Sprintf("/payments?after=%v", data(first)[1].(map[string]any)["id"]), "", http.StatusOK)
	if len(data(rest)) != 1 || rest["has_more"] != false || data(rest)[0].(map[string]any)["request_id"] != "req_0" {
		t.Errorf("%v", rest)
	}
	for query, want := range map[string]int{"state=served": 1, "state=serving": 2, "state=final": 0, "payer=" + (pay.Address{1}).String(): 2, "payer=" + strings.ToUpper((pay.Address{2}).String()[2:]): -1} {
		if want < 0 {
			s.refuses(http.MethodGet, "/payments?"+query, "", http.StatusBadRequest, "payer")
			continue
		}
		if out := s.do(http.MethodGet, "/payments?"+query, "", http.StatusOK); len(data(out)) != want {
			t.Errorf("%s: %v", query, out)
		}
	}
	s.refuses(http.MethodGet, "/payments?state=paid", "", http.StatusBadRequest, "state")
	s.refuses(http.MethodGet, "/payments?after=x", "", http.StatusBadRequest, "after")
	s.refuses(http.MethodGet, "/payments?after=-1", "", http.StatusBadRequest, "after")
	s.refuses(http.MethodGet, "/payments?limit=1001", "", http.StatusBadRequest, "limit")
	if out := s.do(http.MethodGet, "/audit", "", http.StatusOK); out["ok"] != true || !strings.Contains(fmt.Sprint(out["checks"]), "every payment is credited once") {
		t.Errorf("%v", out)
	}
	if err := b.MarkBooked(t.Context(), 1); err != nil { // the ledger lacks it
		t.Fatal(err)
	}
	if out := s.do(http.MethodGet, "/audit", "", http.StatusOK); out["ok"] != false || !strings.Contains(fmt.Sprint(out["checks"]), "which the ledger does not have") {
		t.Errorf("%v", out)
	}
}

// TestATableOfUsageOverHTTP: by up to three dimensions, with a total.
func TestATableOfUsageOverHTTP(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a"}`)
	for i := range 3 {
		if err := s.books.Record(ledger.Charge{RequestID: fmt.Sprintf("req_%d", i), Account: policy.Account(id), Status: "ok", Model: "m", Provider: policy.ProviderID(fmt.Sprint("p", i%2)), Amount: 7, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	var out map[string]any
	polltest.Until(t, "the charges are applied", func() bool {
		out = s.do(http.MethodGet, "/usage/table?by=provider,model&key="+id, "", http.StatusOK)
		return len(out["total"].([]any)) > 0 && out["total"].([]any)[0] == "3"
	})
	if fmt.Sprint(out["by"]) != "[provider model]" || len(out["rows"].([]any)) != 2 || !strings.HasPrefix(fmt.Sprint(out["rows"]), "[[p0 m 2 ") || !strings.Contains(fmt.Sprint(out["total"]), "0.000021") {
		t.Errorf("%v", out)
	}
	s.do(http.MethodGet, "/usage/table?by=layer&project=web&golem=g&since=2026-01-01&until=2026-01-02", "", http.StatusOK)
	s.refuses(http.MethodGet, "/usage/table?by=name", "", http.StatusBadRequest, "by")
	s.refuses(http.MethodGet, "/usage/table", "", http.StatusBadRequest, "by")
	s.refuses(http.MethodGet, "/usage/table?by=model&key=nobody", "", http.StatusNotFound, "no such key")
}
