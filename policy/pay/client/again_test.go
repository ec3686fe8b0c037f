package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// TestPitfall14WhatWasSignedEarlierIsNotSentAgainstTheRules: a stored payment may not have been sent, if its process was killed. The next process sends it only
// if its rules allow it.
func TestPitfall14WhatWasSignedEarlierIsNotSentAgainstTheRules(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(r *client.Rules)
		want   string // "": it is sent again
	}{
		{"the same rules", func(*client.Rules) {}, ""},
		{"an additional scheme", func(r *client.Rules) { r.Schemes = []pay.Scheme{pay.SchemeUpTo, pay.SchemeExact} }, ""},
		{"exact is the default scheme", func(r *client.Rules) { r.Schemes = nil }, ""},
		{"the price itself", func(r *client.Rules) { r.MaxPrice = 1500 }, ""},
		{"another payee", func(r *client.Rules) { r.Payees = []pay.Address{{1}} }, "the payee " + payee.String() + " is not allowed"},
		{"a lower limit", func(r *client.Rules) { r.MaxPrice = 1499 }, "it is of $0.001500, and a request may cost $0.001499"},
		{"another scheme", func(r *client.Rules) { r.Schemes = []pay.Scheme{pay.SchemeUpTo} }, "the scheme exact is not allowed"},
		{"another token", func(r *client.Rules) {
			r.Assets = []client.Asset{{Network: known.Network, Token: pay.Token{Address: pay.Address{9}}}}
		}, "is not allowed"},
		{"another network", func(r *client.Rules) {
			r.Assets = []client.Asset{{Network: pay.Network{ID: 8453, Name: "base"}, Token: known.USDC}}
		}, "on eip155:84532 is not allowed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, &server{then: func(w http.ResponseWriter, _ *pay.Payment) { w.WriteHeader(http.StatusBadGateway) }})
			p := newPayer(t)
			p.Rules.MaxPrice = 1500
			if status, _, _, err := p.get(t.Context(), "one", s.URL); err != nil || status != http.StatusBadGateway {
				t.Fatal(status, err)
			}
			row.change(&p.Rules)
			_, _, paid, err := p.get(t.Context(), "one", s.URL)
			r, refused := errors.AsType[*client.Refusal](err)
			if refused != (row.want != "") || refused && (paid != nil || !strings.Contains(r.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
			if one, times := s.received(); one != 1 || times != map[bool]int{true: 1, false: 2}[refused] {
				t.Errorf("%d authorizations were sent %d times", one, times)
			}
			if a := p.onlyPayment(t); a.State != outgoing.Open {
				t.Errorf("it is %s", a.State)
			}
		})
	}
}
