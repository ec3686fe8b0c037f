package pay

import (
	"context"
	"net/http"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestPitfall30KilledAtEachState: the gateway is killed while a payment's request is served, when it was served, when its transfer was signed, and when it
// was sent. The next start goes on: nothing is paid twice, and nothing is lost.
func TestPitfall30KilledAtEachState(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		state   string
		refused []string // methods that the node does not answer before the kill
		slow    bool     // the kill comes while the provider answers
		settled int      // transfers in the end
	}{
		{"serving", nil, true, 0},
		{"served", []string{"eth_estimateGas"}, false, 1},
		{"signed", []string{"eth_sendRawTransaction"}, false, 1},
		{"sent", []string{"eth_getTransactionReceipt"}, false, 1},
	} {
		t.Run(row.state, func(t *testing.T) {
			t.Parallel()
			c := startChain(t)
			n := startNode(t, c)
			g, p := serve(t, n.through(c), ", bump_after: 2s")
			for _, m := range row.refused {
				n.refused.Store(m, true)
			}
			pm := accept(t, ask(t, g, chatBody(true))).sign(t)
			if row.slow {
				p.Behave(fake.Behaviour{FirstToken: time.Minute})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					if res, err := g.Open(ctx, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatBody(true), Header: []string{pm.header()}}); err == nil {
						_ = res.Body.Close()
					}
				}()
				if _, err := p.WaitGenerations(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			} else if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			pause(t, 2*time.Second) // the till gets as far as the node lets it
			g.Kill()
			n.refused.Clear()
			p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
			again := gateway.Run(t, gateway.Options{
				Config: n.through(c).config(", bump_after: 2s"), Home: g.Home, NoKey: true,
				Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
			})
			settle(t, c, row.settled)
			want := http.StatusConflict
			if row.slow {
				want = http.StatusOK // nothing was paid: the payment is still good
			}
			if got := pm.send(t, again, chatBody(true)); got.Status != want {
				t.Errorf("the same payment: %d %s", got.Status, got.Body)
			}
			settle(t, c, 1)
			if got, wallet := c.received(t), "wallet_70997970c51812dc3a010c7d01b50e0d17dc79c8"; creditOf(t, again, wallet) != got-usualCost-1000 {
				t.Errorf("%d arrived, and the wallet has %d", got, creditOf(t, again, wallet))
			}
			again.AssertSound(t)
		})
	}
}
