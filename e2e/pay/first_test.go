package pay

import (
	"net/http"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

// TestD56LargePaymentsAreSettledFirst: the transfer has happened when the request fails at the provider, and all of it is the wallet's credit; of a request that is
// served, the cost and the fee are charged.
func TestD56LargePaymentsAreSettledFirst(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, ", settle_first_usd: 0.005")
	const wallet = "wallet_70997970c51812dc3a010c7d01b50e0d17dc79c8"
	p.Behave(fake.Behaviour{Status: http.StatusBadRequest})
	first := accept(t, ask(t, g, chatBody(false))).sign(t)
	if got := first.send(t, g, chatBody(false)); got.Status != http.StatusBadRequest {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
	if has := creditOf(t, g, wallet); has != first.Value {
		t.Errorf("the wallet has a credit of %d", has)
	}
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	second := accept(t, ask(t, g, chatBody(true))).sign(t)
	if got := second.send(t, g, chatBody(true)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 2)
	want := first.Value + second.Value - 1000 - usualCost
	for i := 0; creditOf(t, g, wallet) != want; i++ {
		if i > 100 {
			t.Fatalf("the wallet has a credit of %d, want %d", creditOf(t, g, wallet), want)
		}
		pause(t, 50*1e6)
	}
	if got := first.send(t, g, chatBody(false)); got.Status != http.StatusConflict {
		t.Errorf("the first payment again: %d %s", got.Status, got.Body)
	}
	g.AssertSound(t)
}
