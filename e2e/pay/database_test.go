package pay

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// TestPitfall30TheDatabaseIsKilled, with payments of several machines in it, again and again: whatever a client was told, each payment is moved once at most, what was
// answered is charged, and both gateways go on.
func TestPitfall30TheDatabaseIsKilled(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	s := postgrestest.Start(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	gateways, _ := pair(t, c, p, s.Database(t))
	const rounds, each = 3, 6
	var served atomic.Int64
	for range rounds {
		payments := make([]*payment, each)
		for i := range payments {
			payments[i] = accept(t, ask(t, gateways[i%2], chatBody(false))).sign(t)
		}
		var all sync.WaitGroup
		for i, pm := range payments {
			all.Go(func() {
				got := pm.send(t, gateways[i%2], chatBody(false))
				for got.Status != http.StatusOK && got.Status != http.StatusConflict { // nothing was charged: it is sent again
					if got.Header.Get("Payment-Required") != "" {
						t.Errorf("a payment that may have been taken is answered with a price: %d %s", got.Status, got.Body)
						return
					}
					pause(t, 100*time.Millisecond)
					got = pm.send(t, gateways[(i+1)%2], chatBody(false))
				}
				served.Add(1)
			})
		}
		s.Kill(t)
		s.Restart(t)
		all.Wait()
	}
	settle(t, c, rounds*each)
	if served.Load() != rounds*each {
		t.Errorf("%d were served", served.Load())
	}
	for _, g := range gateways { // the other gateway's last charges are in its own charge log until it has applied them
		polltest.Until(t, "sound books of all requests", func() bool {
			var a gateway.Audit
			return json.Unmarshal([]byte(g.Try(t, "audit", "--json").Stdout), &a) == nil && a.OK && a.Requests == rounds*each
		})
	}
}
