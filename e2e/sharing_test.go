package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// sharers are two whole gateways, each with a state of its own, started at the same time on one new ledger in a third place.
func sharers(t *testing.T, b fake.Behaviour) (gs [2]*gateway.Gateway, p *fake.Server) {
	t.Helper()
	return sharersWith(t, b, "", "")
}

// sharersWith are sharers with more of the store's configuration, and of the rest.
func sharersWith(t *testing.T, b fake.Behaviour, store, more string) (gs [2]*gateway.Gateway, p *fake.Server) {
	t.Helper()
	p = fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(b)
	return sharersOf(t, store, more, gateway.Provider{ID: "own", Fake: p, Models: models("m", "")}), p
}

// sharersOf are sharers with these providers.
func sharersOf(t *testing.T, store, more string, providers ...gateway.Provider) (gs [2]*gateway.Gateway) {
	t.Helper()
	return sharersFrom(t, quick+more, store, providers...)
}

// sharersFrom are sharers of a configuration without a store.
func sharersFrom(t *testing.T, base, store string, providers ...gateway.Provider) (gs [2]*gateway.Gateway) {
	t.Helper()
	return sharersEach(t, base, [2]string{store, store}, providers...)
}

// sharersEach are sharers of which each has more of the store's configuration.
func sharersEach(t *testing.T, base string, stores [2]string, providers ...gateway.Provider) (gs [2]*gateway.Gateway) {
	t.Helper()
	dir := proctest.Dir(t)
	var wait sync.WaitGroup
	for i := range gs {
		wait.Go(func() {
			g, err := gateway.Start(t.Context(), gateway.Options{
				Config:    base + "store: {ledger: \"sqlite://" + filepath.Join(dir, "shared.db") + "\"" + stores[i] + "}\n",
				Providers: providers,
			})
			if err != nil {
				t.Error(err)
				return
			}
			gs[i] = g
		})
	}
	wait.Wait()
	for _, g := range gs {
		if g == nil {
			continue
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("a gateway wrote:\n%s", g.Log())
			}
			select {
			case <-g.Exited():
			default:
				if err := g.Stop(); err != nil {
					t.Error(err)
				}
			}
			_ = os.RemoveAll(g.Home)
		})
	}
	if t.Failed() {
		t.FailNow()
	}
	return gs
}

// TestTwoGatewaysShareALedger: keys, balances, limits and revocations are the same at both.
func TestTwoGatewaysShareALedger(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	gs, p := sharers(t, fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	shareALedger(t, gs, p)
}

func shareALedger(t *testing.T, gs [2]*gateway.Gateway, p *fake.Server) {
	t.Helper()
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":100`}
	t.Run("a key of one is a key of the other", func(t *testing.T) {
		for i, g := range gs {
			if got := gs[1-i].Do(t, a.with(g.Key)); got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		}
	})
	t.Run("a revocation", func(t *testing.T) {
		k := gs[0].CreateKey(t, "--name", "revoked")
		for _, g := range gs {
			if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
		}
		gs[0].Bardo(t, "keys", "revoke", k.ID)
		for _, g := range gs {
			eventually(t, "the revocation", func() bool { return g.Do(t, a.with(k.Key)).Status == http.StatusUnauthorized })
		}
	})
	t.Run("a balance, to its last cent", func(t *testing.T) { checkSharedBalance(t, gs, a) })
	t.Run("a daily limit", func(t *testing.T) {
		k := gs[0].CreateKey(t, "--name", "limited", "--limit-usd-day", "0.0006")
		served := 0
		for i := range 20 {
			if gs[i%2].Do(t, a.with(k.Key)).Status == http.StatusOK {
				served++
			}
			<-time.After(300 * time.Millisecond)
		}
		if served < 3 || served > 9 {
			t.Errorf("%d requests were served of a limit that has room for some 6", served)
		}
		for _, g := range gs {
			mustFail(t, a, g.Do(t, a.with(k.Key)), http.StatusTooManyRequests, "budget_exceeded")
		}
	})
	t.Run("K-70 five at once with money for one", func(t *testing.T) {
		p.Behave(slow)
		k := gs[0].CreateKey(t, "--name", "poor", "--balance-usd", "0.0004")
		answers := make([]gateway.Answer, 5)
		var wait sync.WaitGroup
		for i := range answers {
			wait.Go(func() { answers[i] = gs[i%2].Do(t, a.with(k.Key)) })
		}
		wait.Wait()
		if n := byStatus(t, a, answers); n[http.StatusOK] != 1 || n[http.StatusPaymentRequired] != 4 {
			t.Errorf("answers %v, want one 200 and four 402", n)
		}
	})
}

func checkSharedBalance(t *testing.T, gs [2]*gateway.Gateway, a ask) {
	t.Helper()
	// Each costs 60 millionths, and up to some 270 are set aside: whoever asks finds what the other one does not use.
	k := gs[0].CreateKey(t, "--name", "prepaid", "--balance-usd", "0.0012")
	served := 0
	for i := range 40 {
		got := gs[i%2].Do(t, a.with(k.Key))
		if got.Status == http.StatusPaymentRequired {
			break
		}
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		served++
	}
	t.Logf("%d requests were served", served)
	if served < 13 {
		t.Errorf("%d requests were served, want some 15: one gateway refused for what the other one held and did not use", served)
	}
	for _, g := range gs {
		eventually(t, "nothing is held", func() bool { return fundsOf(t, g, k.Key).Held == "0.000000" })
		g.AssertSound(t)
	}
}

// TestAKilledGatewayIsRecoveredByTheOther: what it held is there again within seconds, without a command and without a restart.
func TestAKilledGatewayIsRecoveredByTheOther(t *testing.T) {
	t.Parallel()
	gs, p := sharers(t, fake.Behaviour{Tokens: 400, Gap: 50 * time.Millisecond, Usage: &fake.Usage{Input: 10, Output: 20}})
	k := gs[0].CreateKey(t, "--name", "prepaid", "--balance-usd", "0.0012")
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":400`, stream: true}
	var wait sync.WaitGroup
	wait.Go(func() { // up to some 850 millionths are set aside for it
		res, err := gs[0].Open(t.Context(), a.with(k.Key))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		_, _ = io.Copy(io.Discard, res.Body) // until the kill
	})
	if _, err := p.WaitGenerations(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	mustFail(t, a, gs[1].Do(t, a.with(k.Key)), http.StatusPaymentRequired, "insufficient_balance")
	gs[0].Kill()
	wait.Wait()
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	killed := time.Now()
	eventually(t, "the killed gateway's money", func() bool { return gs[1].Do(t, a.with(k.Key)).Status == http.StatusOK })
	t.Logf("served %s after the kill", time.Since(killed))
	eventually(t, "nothing is held", func() bool { return fundsOf(t, gs[1], k.Key).Held == "0.000000" })
	gs[1].AssertSound(t)
}
