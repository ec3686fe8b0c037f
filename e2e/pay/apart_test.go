package pay

import (
	"net/http"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// TestPitfall1TwoGatewaysWithoutACommonStore: a payment that is sent to both at the same time is served by both, since neither knows of the other, and is money at one of them alone. Its
// wallet owes the other one, where its next payment is settled before it is served, and pays what is owed.
func TestPitfall1TwoGatewaysWithoutACommonStore(t *testing.T) {
	t.Parallel()
	c, n, p := startPlace(t)
	var gateways [2]*gateway.Gateway
	for i := range gateways {
		gateways[i] = gateway.Run(t, gateway.Options{Config: n.through(c).config(""), Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}}})
	}
	w := newThief(t, c, n, payerKey)
	pm := w.price(gateways[0])
	n.refused.Store("eth_estimateGas", true) // nothing is moved before both have served
	var both sync.WaitGroup
	for _, g := range gateways {
		both.Go(func() {
			if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	both.Wait()
	n.refused.Clear()
	settle(t, c, 1)
	robbed := 0
	polltest.Until(t, "the loss of one of them", func() bool {
		_, first := moneyOf(t, gateways[0], w.Wallet)
		_, second := moneyOf(t, gateways[1], w.Wallet)
		if second > 0 {
			robbed = 1
		}
		return first+second == lostEach
	})
	pm = w.price(gateways[robbed])
	if got := pm.send(t, gateways[robbed], chatBody(true)); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 2)
	polltest.Until(t, "the loss is taken", func() bool { _, owed := moneyOf(t, gateways[robbed], w.Wallet); return owed == 0 })
	for _, g := range gateways {
		g.AssertSound(t)
	}
}
