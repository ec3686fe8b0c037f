package pay

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger"
)

// usualPrice is a payment of the price that a gateway tells everybody.
func (w *thief) usualPrice(g *gateway.Gateway) *payment {
	w.Helper()
	pm := accept(w.T, ask(w.T, g, chatBody(true)))
	pm.Key, pm.From = w.key, addressOf(w.key)
	pm.ValidBefore += w.later
	return pm.sign(w.T)
}

// losses are the requests whose payments failed.
func losses(t *testing.T, g *gateway.Gateway) (requests []string) {
	t.Helper()
	var list []struct {
		Request string `json:"request_id"`
	}
	out := g.Bardo(t, "payments", "--state", "failed", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, p := range list {
		requests = append(requests, p.Request)
	}
	return requests
}

// wantForgiven forgives losses, and compares what the command prints.
func wantForgiven(t *testing.T, g *gateway.Gateway, texts []string, args ...string) {
	t.Helper()
	out := g.Bardo(t, append([]string{"payments", "forgive"}, args...)...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("bardo payments forgive %v printed %q, want %q", args, out, text)
		}
	}
}

// TestPitfall10AForgivenWalletIsServed: a wallet that owes is refused at both gateways of a store, also while it owes for one loss of two. When all is forgiven at one,
// the next request at each is served at the price of others, before its payment is settled, and nothing is collected later.
func TestPitfall10AForgivenWalletIsServed(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) { //nolint:thelper // it is the test
		gateways, w := startRobbed(t, store, 2)
		refused := func(owed string) {
			t.Helper()
			for _, g := range gateways {
				if got := w.usualPrice(g).send(t, g, chatBody(true)); got.Status != http.StatusPaymentRequired || !strings.Contains(got.Body, `"owed":`+owed) {
					t.Errorf("a wallet that owes: %d %s", got.Status, got.Body)
				}
			}
		}
		refused("0.008000")
		address := addressOf(w.key).Hex()
		wantForgiven(t, gateways[1], []string{"forgiven  $0.004000", "owed      $0.004000"}, losses(t, gateways[0])[0], "--reason", "our node was away")
		refused("0.004000")
		wantForgiven(t, gateways[0], []string{"forgiven  $0.004000", "our node was away", "paid by invoice", "owed      $0.000000"}, "--payer", address, "--reason", "paid by invoice")
		w.n.refused.Store("eth_estimateGas", true) // nothing is settled yet
		var paid int64
		for _, g := range gateways {
			pm := w.usualPrice(g)
			paid += pm.Value
			if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
				t.Errorf("a wallet that was forgiven: %d %s", got.Status, got.Body)
			}
		}
		w.n.refused.Clear()
		settle(t, w.c, 2)
		polltest.Until(t, "the wallet has what it paid less what it used", func() bool {
			has, owed := moneyOf(t, gateways[1], w.Wallet)
			return has == paid-2*lostEach && owed == 0
		})
		for _, g := range gateways {
			g.AssertSound(t)
			g.Kill()
		}
		wantForgiven(t, gateways[0], []string{"nothing changed", "owed      $0.000000"}, "--payer", address, "--reason", "again")
	})
}

// TestPitfall10ALossIsForgivenWhileNoGatewayRuns, and the next start serves the wallet. What is forgiven at a gateway is in its audit log, with the reason.
func TestPitfall10ALossIsForgivenWhileNoGatewayRuns(t *testing.T) {
	t.Parallel()
	c, n, p := startPlace(t)
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	o := gateway.Options{
		Config:    n.through(c).config("") + "audit: {file: '" + log + "', sync: always}\n",
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	}
	g := gateway.Run(t, o)
	o.Home, o.NoKey = g.Home, true
	w := newThief(t, c, n, payerKey)
	w.steal(2, g)
	wantOwed(t, g, w.Wallet, 2*lostEach)
	c.mint(t, addressOf(w.key), 1_000_000)
	request := losses(t, g)[1]
	wantForgiven(t, g, []string{"owed      $0.004000"}, request, "--reason", "our node was away")
	polltest.Until(t, "the audit log has it", func() bool {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), `"operation":"forgiveLosses","via":"socket","target":"`+request+`","usd":"0.004000","reason":"our node was away"`)
	})
	g.Kill()
	wantForgiven(t, g, []string{"forgiven  $0.004000", "owed      $0.000000"}, "--payer", addressOf(w.key).Hex(), "--reason", "paid by invoice")
	g = gateway.Run(t, o)
	pm := w.usualPrice(g)
	if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
	wantOwed(t, g, w.Wallet, 0)
	if has := creditOf(t, g, w.Wallet); has != pm.Value-lostEach {
		t.Errorf("the wallet has %d of %d", has, pm.Value)
	}
	g.AssertSound(t)
	if out := g.Bardo(t, "audit"); !strings.Contains(out, "2 losses forgiven, of which $0.008000 was owed") {
		t.Error(out)
	}
}

// TestPitfall10ForgivenWhileAPaymentPaysForIt: losses are forgiven at two gateways, one by one and all together, while a payment pays for them at one. What is owed is
// forgiven or taken, once in all, and what is not taken of the payment is the wallet's credit.
func TestPitfall10ForgivenWhileAPaymentPaysForIt(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) { //nolint:thelper // it is the test
		gateways, w := startRobbed(t, store, 3)
		lost := losses(t, gateways[0])
		pm := w.price(gateways[0])
		var all sync.WaitGroup
		all.Go(func() {
			if got := pm.send(t, gateways[0], chatBody(true)); got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
		for i, g := range gateways {
			all.Go(func() {
				for _, request := range lost[:2] {
					wantForgiven(t, g, []string{request}, request, "--reason", "why")
				}
				wantForgiven(t, g, lost, "--payer", addressOf(w.key).Hex(), "--reason", "why "+strconv.Itoa(i))
			})
		}
		all.Wait()
		settle(t, w.c, 1)
		var a ledger.Report
		if out := gateways[1].Bardo(t, "audit", "--json"); json.Unmarshal([]byte(out), &a) != nil || !a.OK || a.Forgiven.Losses != 3 || a.Forgiven.Amount > 3*lostEach {
			t.Errorf("%s", out)
		}
		want := pm.Value - lostEach - (3*lostEach - int64(a.Forgiven.Amount))
		polltest.Until(t, "the wallet has the rest of its payment", func() bool {
			has, owed := moneyOf(t, gateways[1], w.Wallet)
			return has == want && owed == 0
		})
		for _, g := range gateways {
			g.AssertSound(t)
		}
	})
}
