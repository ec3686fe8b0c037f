package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestB05BudgetsNest: many requests of two keys in parallel cannot spend more than their project may, nor those of two projects more than their owner; the
// record says which budget refused, and a raised one counts while the gateway runs.
func TestB05BudgetsNest(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *gateway.Gateway, p *fake.Server) {
		t.Helper()
		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 45}}) // 100 millionths
		g.Bardo(t, "owners", "create", "acme", "--limit-usd-month", "0.002000")
		g.Bardo(t, "projects", "create", "web", "--owner", "acme", "--limit-usd-day", "0.001000")
		g.Bardo(t, "projects", "create", "app", "--owner", "acme")
		one, two := g.CreateKey(t, "--name", "one", "--project", "web"), g.CreateKey(t, "--name", "two", "--project", "web", "--balance-usd", "5")
		three := g.CreateKey(t, "--name", "three", "--project", "app")
		var served atomic.Int64
		t.Run("keys", func(t *testing.T) {
			for _, k := range []gateway.NewKey{one, two} {
				t.Run(k.Name, func(t *testing.T) {
					t.Parallel()
					served.Add(int64(manyAtOnce(t, g, k.Key, 30)))
				})
			}
		})
		if n := served.Load(); n < 1 || n > 10 {
			t.Errorf("%d requests of 100 were served from a project's 1000", n)
		}
		refusedBy(t, g, one.Key, "project", "web")
		g.Bardo(t, "projects", "update", "web", "--limit-usd-day", "1")
		eventually(t, "the raised budget", func() bool { return g.Do(t, both[1].with(one.Key)).Status == http.StatusOK })
		manyAtOnce(t, g, three.Key, 40)
		for _, k := range []gateway.NewKey{one, two, three} {
			refusedBy(t, g, k.Key, "owner", "acme")
		}
		var owner []struct {
			ID    string
			Month json.Number `json:"spent_usd_month"`
		}
		eventually(t, "the owner's spending", func() bool {
			if err := json.Unmarshal([]byte(g.Bardo(t, "owners", "list", "--json")), &owner); err != nil || len(owner) != 1 {
				t.Fatalf("%+v %v", owner, err)
			}
			return micro(t, owner[0].Month) > 1700
		})
		if n := micro(t, owner[0].Month); n > 2000 {
			t.Errorf("the owner spent %d of 2000", n)
		}
		if out := g.Bardo(t, "projects", "list"); !strings.Contains(out, "web") || !strings.Contains(out, "app") {
			t.Errorf("%s", out)
		}
		g.AssertSound(t)
	})
}

// refusedBy waits until a budget refuses a key's short requests, and checks the error in each format and the record.
func refusedBy(t *testing.T, g *gateway.Gateway, key, holder, id string) {
	t.Helper()
	eventually(t, "the budget of "+id, func() bool { return g.Do(t, both[1].with(key)).Status == http.StatusTooManyRequests })
	for _, a := range both {
		got := g.Do(t, a.with(key))
		mustFail(t, a, got, http.StatusTooManyRequests, "budget_exceeded")
		var r struct {
			Budget struct{ Holder, ID, Action string }
		}
		get(t, g, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
		if b := r.Budget; b.Holder != holder || b.ID != id || b.Action != "refused" || got.Header.Get("Retry-After") == "" {
			t.Errorf("%+v %s", r, got.Body)
		}
	}
}
