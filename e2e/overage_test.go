package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD55WhatIsBeyondAnAllowanceIsBilledOrRefused: with limits.overage: bill requests beyond it are served, and cost what the others do; else they are refused.
func TestD55WhatIsBeyondAnAllowanceIsBilledOrRefused(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]int{"bill": 6, "deny": 2} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 400, Output: 100}})
			g := gateway.Run(t, gateway.Options{
				Config:    "limits: {rpm: 0, tokens_per_hour: 1000, overage: " + rule + "}\n",
				Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}},
			})
			k := g.CreateKey(t, "--name", "k", "--balance-usd", "1")
			served, hour := 0, time.Now().UTC().Hour()
			for i := range 6 {
				got := g.Do(t, forms[i%len(forms)].about("m", fmt.Sprint(rule, i)).with(k.Key))
				switch got.Status {
				case http.StatusOK:
					served++
				case http.StatusTooManyRequests:
				default:
					t.Errorf("%d %s", got.Status, got.Body)
				}
			}
			if turned := time.Now().UTC().Hour() != hour; served < want || served > want && !turned {
				t.Errorf("%d of 6 were served, want %d", served, want)
			}
			var f funds
			eventually(t, "the charges", func() bool {
				get(t, g, k.Key, "/v1/balance", &f)
				return f.Balance != nil && f.Balance.String() == fmt.Sprintf("0.%06d", 1_000_000-720*served) // with the spread of 20 %
			})
		})
	}
}
