package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// ledgerRows counts the rows of a table of the ledger.
func ledgerRows(t *testing.T, g *gateway.Gateway, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(g.Home, "bardo.db")+"?_busy_timeout=5000&_query_only=on")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// usedBy sums what a key used.
func usedBy(t *testing.T, g *gateway.Gateway, key string) (requests, refused int) {
	t.Helper()
	var use struct {
		Data []struct{ Requests, Refused int }
	}
	get(t, g, key, "/v1/usage?by=day", &use)
	for _, u := range use.Data {
		requests += u.Requests
		refused += u.Refused
	}
	return requests, refused
}

// TestRefusalsAreCountedAndHaveNoRows: a client that ignores refusals costs the ledger a row per minute and reason, not one per request.
// What was refused is counted all the same.
func TestRefusalsAreCountedAndHaveNoRows(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config:    strings.Replace(quick, "rpm: 0", "rpm: 3", 1),
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}},
	})
	const sent, workers = 400, 8
	var wait sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range workers {
		wait.Go(func() {
			for range sent / workers {
				got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
				mu.Lock()
				statuses[got.Status]++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if statuses[http.StatusTooManyRequests] < sent/2 || statuses[http.StatusOK]+statuses[http.StatusTooManyRequests] != sent {
		t.Fatalf("statuses %v", statuses)
	}
	refused := statuses[http.StatusTooManyRequests]
	eventually(t, "all are counted", func() bool {
		return ledgerRows(t, g, `SELECT coalesce(sum(requests), 0) FROM usage`) == sent
	})
	if requests, no := usedBy(t, g, g.Key); requests != sent || no != refused {
		t.Errorf("%d requests, of which %d were refused, want %d and %d", requests, no, sent, refused)
	}
	if out := g.Bardo(t, "usage", "--by", "day"); !strings.Contains(out, fmt.Sprint(sent)) || !strings.Contains(out, "REFUSED") || !strings.Contains(out, fmt.Sprint(refused)) {
		t.Errorf("bardo usage: %s", out)
	}
	if n := ledgerRows(t, g, `SELECT count(*) FROM request`); n != statuses[http.StatusOK] {
		t.Errorf("%d requests have a row of their own, want %d", n, statuses[http.StatusOK])
	}
	if n := ledgerRows(t, g, `SELECT count(*) FROM refusal`); n < 1 || n > 3 { // the minutes that it took
		t.Errorf("%d rows of refusals", n)
	}
	if n := ledgerRows(t, g, `SELECT sum(requests) FROM refusal WHERE reason = 'rate_limit_exceeded' AND status = 429`); n != refused {
		t.Errorf("%d refusals, want %d", n, refused)
	}
	g.AssertSound(t)
}

// TestEachKindOfRefusalIsCounted: a request that ends before a provider is called has no row, whatever the reason; one that reached a
// provider has.
func TestEachKindOfRefusalIsCounted(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001").Key
	readOnly := g.CreateKey(t, "--name", "reader", "--read-only").Key
	good := ask{dialect: fake.OpenAI, model: "m"}
	for _, row := range []struct {
		code   string
		status int
		call   gateway.Call
	}{
		{"invalid_api_key", http.StatusUnauthorized, good.with("bardo_sk_wrong")},
		{"insufficient_balance", http.StatusPaymentRequired, good.with(poor)},
		{"key_restricted", http.StatusForbidden, good.with(readOnly)},
		{"model_not_found", http.StatusNotFound, ask{dialect: fake.OpenAI, model: "nosuch"}.call()},
		{"invalid_request", http.StatusBadRequest, gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"m"`}},
	} {
		got := g.Do(t, row.call)
		mustFail(t, good, got, row.status, row.code)
		eventually(t, "the refusal "+row.code, func() bool {
			return ledgerRows(t, g, fmt.Sprintf(`SELECT coalesce(sum(requests), 0) FROM refusal WHERE reason = '%s' AND status = %d`, row.code, row.status)) == 1
		})
	}
	if n := ledgerRows(t, g, `SELECT count(*) FROM request`); n != 0 {
		t.Errorf("%d refusals have a row", n)
	}
	p.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
	got := g.Do(t, good.call())
	if got.Status < http.StatusInternalServerError {
		t.Fatal(got.Status)
	}
	if r := recordOf(t, g, got); r.Status != "failed" || r.Attempts == 0 {
		t.Errorf("%+v", r)
	}
	eventually(t, "its row", func() bool { return ledgerRows(t, g, `SELECT count(*) FROM request`) == 1 })
}

// TestARecordIsThereWithItsAnswer: GET /v1/requests/{id} finds a request the moment that its answer has ended, however it ended: of a key
// with a balance it is in the store then, of others the gateway has it in memory, and the store may be busy for long.
func TestARecordIsThereWithItsAnswer(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "own", Fake: p, Models: append(models("m", ""), models("broken", "")...)},
	}})
	p.BehaveFor("broken", fake.Behaviour{Status: http.StatusInternalServerError})
	prepaid := g.CreateKey(t, "--name", "prepaid", "--balance-usd", "10").Key
	for _, key := range []string{prepaid, g.Key} {
		if key == g.Key {
			holdWriteLock(t, g) // for the rest of the test: what is written behind stays behind
		}
		for _, row := range []struct{ model, status string }{{"m", "ok"}, {"broken", "failed"}, {"nosuch", "failed"}} {
			for _, stream := range []bool{false, true} {
				got := g.Do(t, ask{dialect: fake.OpenAI, model: row.model, stream: stream}.with(key))
				if b := billOf(t, g, key, got.Header.Get("X-Request-Id")); b.Status != row.status || b.HTTPStatus != got.Status {
					t.Errorf("%s, stream=%v: answered %d, record %+v", row.model, stream, got.Status, b)
				}
			}
		}
	}
}
