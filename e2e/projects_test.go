package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy"
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
		spendUntil(t, g, one.Key, func() bool { return spent(t, g, "projects", "web").Day > 700 })
		refusedBy(t, g, one.Key, "project", "web")
		g.Bardo(t, "projects", "update", "web", "--limit-usd-day", "1")
		eventually(t, "the raised budget", func() bool { return g.Do(t, both[1].with(one.Key)).Status == http.StatusOK })
		manyAtOnce(t, g, three.Key, 40)
		spendUntil(t, g, three.Key, func() bool { return spent(t, g, "owners", "acme").Month > 1700 })
		for _, k := range []gateway.NewKey{one, two, three} {
			refusedBy(t, g, k.Key, "owner", "acme")
		}
		if n := spent(t, g, "owners", "acme").Month; n > 2000 {
			t.Errorf("the owner spent %d of 2000", n)
		}
		if out := g.Bardo(t, "projects", "list"); !strings.Contains(out, "web") || !strings.Contains(out, "app") {
			t.Errorf("%s", out)
		}
		g.AssertSound(t)
	})
}

// spendUntil sends requests until what they cost is charged. A refusal alone does not show that: requests under way hold more than they cost.
func spendUntil(t *testing.T, g *gateway.Gateway, key string, charged func() bool) {
	t.Helper()
	eventually(t, "the charges of a budget", func() bool {
		g.Do(t, both[1].with(key))
		return charged()
	})
}

// spending is what a project or owner spent, in millionths of a USD.
type spending struct{ Day, Month policy.Micro }

// spent reads the spending of one project or owner ("projects", "owners") from the command's list.
func spent(t *testing.T, g *gateway.Gateway, list, id string) spending {
	t.Helper()
	var all []struct {
		ID    string       `json:"id"`
		Day   policy.Micro `json:"spent_usd_day"`
		Month policy.Micro `json:"spent_usd_month"`
	}
	if err := json.Unmarshal([]byte(g.Bardo(t, list, "list", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if h.ID == id {
			return spending{h.Day, h.Month}
		}
	}
	t.Fatalf("%s: no %s among %+v", list, id, all)
	return spending{}
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
