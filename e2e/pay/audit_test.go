package pay

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// TestAnAuditWaitsForWhatIsOnItsWay: while requests are paid for at two gateways on one database, audits of both find nothing wrong, again and again, though a
// charge lies in the log of its gateway for a while. They say what they waited for.
func TestAnAuditWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	url := postgrestest.URL(t)
	gateways, _ := pair(t, c, p, url)
	var mu sync.Mutex
	var waited []ledger.Report
	stop := make(chan struct{})
	var audits sync.WaitGroup
	for _, g := range gateways {
		audits.Go(func() {
			for {
				if r := auditOf(t, g); !r.OK {
					t.Errorf("%+v", r)
				} else if r.Again != nil {
					mu.Lock()
					waited = append(waited, r)
					mu.Unlock()
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	const rounds = 4
	for i := range rounds {
		pm := accept(t, ask(t, gateways[i%2], chatBody(false))).sign(t)
		free := holdCharges(t, url)
		if got := pm.send(t, gateways[i%2], chatBody(false)); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		waitForAudit(t, url)
		free()
	}
	close(stop)
	audits.Wait()
	found := ""
	for _, r := range waited {
		found += strings.Join(r.Again.For, "\n")
		if r.Again.Unexplained > 0 || r.Again.Found == 0 {
			t.Errorf("%+v", r.Again)
		}
	}
	if !strings.Contains(found, "cost 0.003000 USD, which the ledger has not charged") {
		t.Errorf("no audit had to wait for a charge: %q", found)
	}
	settle(t, c, rounds)
	if out := gateways[0].Bardo(t, "audit"); strings.Contains(out, "waited") || !strings.Contains(out, "ok    every paid request is charged once") {
		t.Error(out)
	}
}

// waitForAudit waits until an audit has looked at a payment again twice: its connection has then read the failed payments last, at one time after another, as
// no other connection does. What a request writes is written by now, but for its charge, so that is what the audit waits for.
func waitForAudit(t *testing.T, url string) {
	t.Helper()
	db, err := postgres.Connect(t.Context(), url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	last, looks := map[int64]int64{}, map[int64]int{}
	polltest.Until(t, "an audit looks again", func() bool {
		rows, err := db.QueryContext(t.Context(), `SELECT pid, CAST(extract(epoch FROM query_start) * 1000000 AS BIGINT) FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle' AND query LIKE '%FROM payment WHERE settlement = ''failed'' AND lost = 0%'`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		most := 0
		for rows.Next() {
			var pid, at int64
			if err := rows.Scan(&pid, &at); err != nil {
				t.Fatal(err)
			}
			if last[pid] != at {
				last[pid] = at
				looks[pid]++
			}
			most = max(most, looks[pid])
		}
		return rows.Err() == nil && most > 2
	})
}

func auditOf(t *testing.T, g *gateway.Gateway) (r ledger.Report) {
	t.Helper()
	got := g.Try(t, "audit", "--json")
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Errorf("%v %+v", err, got)
	}
	return r
}

// holdCharges keeps gateways from writing charges to a database, while they write all else, until it is told.
func holdCharges(t *testing.T, url string) (free func()) {
	t.Helper()
	db, err := postgres.Connect(t.Context(), url, true)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE request IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
