package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD51ThePlansSpreadIsChargedAndReserved: each plan's own percentage on the provider's cost (D-51), rounded up once, and only where
// something is left of a millionth (D-50): on both paths, in the header, the record and the balance, and in what is set aside.
func TestD51ThePlansSpreadIsChargedAndReserved(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config: quick + "billing: {tiers: {free: {}, pro: {spread_pct: 5}}}\n",
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{
			{ID: "m", Price: "{input: 1, output: 2}"}, {ID: "cheap", Price: "{input: 0.3, output: 0}"}, {ID: "dear", Price: "{input: 0, output: 100}"},
		}}},
	})
	spread := map[string]int{"free": 25, "pro": 5, "golem": 10}
	keys := map[string]string{}
	for tier := range spread {
		keys[tier] = g.CreateKey(t, "--name", tier, "--tier", tier, "--balance-usd", "10").Key
	}
	for _, row := range []struct {
		model         string
		input, output int
		charge        map[string]int64 // millionths, by the plan
	}{
		{"m", 1000, 500, map[string]int64{"free": 2500, "pro": 2100, "golem": 2200}}, // exact
		{"m", 1001, 501, map[string]int64{"free": 2504, "pro": 2104, "golem": 2204}}, // 2503.75, 2103.15, 2203.3
		{"cheap", 1, 0, map[string]int64{"free": 1, "pro": 1, "golem": 1}},           // 0.375, 0.315, 0.33
		{"cheap", 10, 0, map[string]int64{"free": 4, "pro": 4, "golem": 4}},          // 3.75, 3.15, 3.3
	} {
		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: row.input, Output: row.output}})
		for tier, charge := range row.charge {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d+%d/%s/stream=%v", row.model, row.input, row.output, tier, stream), func(t *testing.T) {
					before := balanceOf(t, g, keys[tier])
					a := ask{dialect: fake.OpenAI, model: row.model, stream: stream}
					got := g.Do(t, a.with(keys[tier]))
					if got.Status != http.StatusOK {
						t.Fatalf("%d %s", got.Status, got.Body)
					}
					if paid := before - balanceOf(t, g, keys[tier]); paid != charge {
						t.Errorf("%d were taken, want %d", paid, charge)
					}
					b := billOf(t, g, keys[tier], got.Header.Get("X-Request-Id"))
					if micro(t, b.Cost) != charge || b.SpreadPct != spread[tier] || got.Header.Get("X-Bardo-Spread") != fmt.Sprint(spread[tier]) {
						t.Errorf("billed %+v, with a spread of %s", b, got.Header.Get("X-Bardo-Spread"))
					}
				})
			}
		}
	}
	for tier, most := range map[string]string{"free": "0.125000", "pro": "0.105000", "golem": "0.110000"} { // 1000 tokens at $100
		poor := g.CreateKey(t, "--name", "poor-"+tier, "--tier", tier, "--balance-usd", "0.1").Key
		got := g.Do(t, ask{dialect: fake.OpenAI, model: "dear", more: `"max_tokens":1000`}.with(poor))
		if got.Status != http.StatusPaymentRequired || !strings.Contains(got.Body, "may cost up to $"+most) {
			t.Errorf("%s: %d %s, want $%s to be set aside", tier, got.Status, got.Body, most)
		}
	}
	g.AssertSound(t)
}
