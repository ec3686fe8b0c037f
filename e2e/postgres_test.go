package e2e

import (
	"cmp"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// machines are gateways with a state of their own each, as on several machines, that share a ledger in PostgreSQL. Only the pepper is the same.
func machines(t *testing.T, url string, o gateway.Options) (gs [2]*gateway.Gateway) {
	t.Helper()
	return machinesWith(t, storeAt(url), o)
}

// machinesWith are machines with what they share.
func machinesWith(t *testing.T, store string, o gateway.Options) (gs [2]*gateway.Gateway) {
	t.Helper()
	o.Config = cmp.Or(o.Config, quick) + store
	o.DataPath = "extproc"
	for i := range gs {
		o.Home = proctest.Dir(t)
		if i > 0 {
			copyFile(t, filepath.Join(gs[0].Home, "pepper"), filepath.Join(o.Home, "pepper"))
		}
		gs[i] = gateway.Run(t, o)
	}
	return gs
}

func storeAt(url string) string { return "store: {ledger: \"" + url + "\"}\n" }

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGatewaysOfSeveralMachinesShareALedger: keys, balances, limits and revocations are the same at both, as where they share a file.
func TestGatewaysOfSeveralMachinesShareALedger(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	gs := machines(t, postgrestest.URL(t), gateway.Options{Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	shareALedger(t, gs, p)
	t.Run("a revocation takes less than a second", func(t *testing.T) { revokeWithinASecond(t, gs) })
	t.Run("the commands", func(t *testing.T) { commandsOnPostgres(t, gs) })
}

func revokeWithinASecond(t *testing.T, gs [2]*gateway.Gateway) {
	t.Helper()
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":100`}
	least := time.Hour
	for range 5 { // a busy machine delays one of them
		k := gs[0].CreateKey(t, "--name", "revoked")
		if got := gs[1].Do(t, a.with(k.Key)); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		gs[0].Bardo(t, "keys", "revoke", k.ID)
		revoked := time.Now()
		eventually(t, "the revocation", func() bool { return gs[1].Do(t, a.with(k.Key)).Status == http.StatusUnauthorized })
		if least = min(least, time.Since(revoked)); least < time.Second {
			return
		}
	}
	t.Errorf("a revocation took %s", least)
}

func commandsOnPostgres(t *testing.T, gs [2]*gateway.Gateway) {
	t.Helper()
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":100`}
	k := gs[0].CreateKey(t, "--name", "commands", "--balance-usd", "1")
	got := gs[1].Do(t, a.with(k.Key))
	id := got.Header.Get("X-Request-Id")
	if got.Status != http.StatusOK || id == "" {
		t.Fatalf("%d %q %s", got.Status, id, got.Body)
	}
	for _, g := range gs {
		eventually(t, "the request is in the ledger", func() bool { return strings.Contains(g.Bardo(t, "requests", "--key", k.ID), id) })
		for _, c := range []struct {
			command, want string
		}{
			{"requests show " + id, "own"},
			{"requests --key " + k.ID + " --status 200", id},
			{"usage --key " + k.ID + " --by model", "m"},
			{"usage --key " + k.ID + " --by day --format csv", time.Now().UTC().Format("2006-01-02")},
			{"keys list", "commands"},
			{"balance " + k.ID, "0.99"},
			{"audit", "every journal sums to zero"},
			{"doctor", "postgres://bardo@"},
		} {
			if out := g.Bardo(t, strings.Fields(c.command)...); !strings.Contains(out, c.want) {
				t.Errorf("%s: %s, want %q", c.command, out, c.want)
			}
		}
	}
	if out := gs[1].Bardo(t, "deposit", k.ID, "--usd", "2", "--ref", "r"); !strings.Contains(out, "2.99") {
		t.Errorf("deposit: %s", out)
	}
}

// TestK70ThreeHundredOfAThousandOnSeveralMachines: a key has money for 300 requests, and 1,000 come at once at two gateways.
func TestK70ThreeHundredOfAThousandOnSeveralMachines(t *testing.T) {
	t.Parallel()
	const requests, paid = 1000, 300
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	gs := machines(t, postgrestest.URL(t), gateway.Options{Providers: []gateway.Provider{
		{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 0, output: 1000}"}}}, // of which 20 tokens are reserved and used
	}})
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":20`}
	k := gs[0].CreateKey(t, "--name", "for 300", "--balance-usd", "7.2")
	answers := make([]gateway.Answer, requests)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = gs[i%2].Do(t, a.with(k.Key)) })
	}
	all.Wait()
	n := byStatus(t, a, answers)
	served := n[http.StatusOK]
	if served > paid || served+n[http.StatusPaymentRequired] != requests {
		t.Errorf("answers %v, want at most %d of 200, and else 402", n, paid)
	}
	t.Logf("%d were served at once", served)
	for i := 0; served < paid && i < 2*paid; i++ { // a gateway may refuse what the other one holds, and returns later
		if gs[i%2].Do(t, a.with(k.Key)).Status == http.StatusOK {
			served++
		}
	}
	if served != paid {
		t.Errorf("%d were served, want %d", served, paid)
	}
	for _, g := range gs {
		mustFail(t, a, g.Do(t, a.with(k.Key)), http.StatusPaymentRequired, "insufficient_balance")
		eventually(t, "everything is charged", func() bool { return balanceIs(t, g, k.Key, "0.000000") })
		g.AssertSound(t)
	}
}

func balanceIs(t *testing.T, g *gateway.Gateway, key, want string) bool {
	t.Helper()
	f := fundsOf(t, g, key)
	return f.Balance != nil && string(*f.Balance) == want && f.Held == "0.000000"
}

// TestKilledUnderLoadInPostgres is TestKilledUnderLoad on a ledger in PostgreSQL.
func TestKilledUnderLoadInPostgres(t *testing.T) {
	t.Parallel()
	rounds := kills / 2 // what a gateway does before it is killed is the same with both databases
	if os.Getenv("BARDO_SOAK") != "" {
		rounds = soakKills
	}
	s := newSoak(t)
	s.database = postgrestest.URL(t)
	s.options.Config += storeAt(s.database)
	s.options.DataPath = "extproc"
	killAgainAndAgain(t, s, rounds)
}

// openPostgres reads a ledger behind the gateway's back.
func openPostgres(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := postgres.Connect(t.Context(), url, false)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestPostgresKilledUnderLoad kills the database while two gateways serve: requests go on, charges wait in the charge logs, and each is charged once.
func TestPostgresKilledUnderLoad(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	gs := machines(t, s.Database(t), gateway.Options{Providers: []gateway.Provider{
		{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 0, output: 1000}"}}},
	}})
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":20`}
	prepaid := gs[0].CreateKey(t, "--name", "prepaid", "--balance-usd", "10000") // a block has 10 USD, for some 400 requests
	metered := gs[0].CreateKey(t, "--name", "metered")
	served := map[string]int{}
	serve := func(n int) {
		t.Helper()
		for i := range n {
			for _, key := range []string{prepaid.Key, metered.Key} {
				if got := gs[i%2].Do(t, a.with(key)); got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				served[key]++
			}
		}
	}
	for range 2 {
		serve(20) // both gateways have a block and know the keys: one that a gateway has not seen gets 503 without the database
		s.Kill(t)
		serve(20)
		checks := func(want string) func() bool {
			return func() bool {
				for _, g := range gs {
					if ready, body := bodyOf(t, g.Admin+"/readyz?verbose"); ready != http.StatusOK || !strings.Contains(body, want) {
						return false
					}
				}
				return true
			}
		}
		eventually(t, "both say that the database is away", checks(`{"name":"ledger store","ok":false,"detail":"it cannot be written, and charges wait in the charge log: the database does not answer"}`))
		s.Restart(t)
		eventually(t, "both say that it is back", checks(`{"name":"ledger store","ok":true}`))
		for _, g := range gs {
			eventually(t, "the charges are written", func() bool { return g.Metrics(t)["bardo_ledger_unwritten_charges"] == 0 })
		}
	}
	want := strconv.FormatFloat(10000-0.024*float64(served[prepaid.Key]), 'f', 6, 64)
	for _, g := range gs {
		eventually(t, "each is charged once", func() bool { return balanceIs(t, g, prepaid.Key, want) })
		if out := g.Bardo(t, "usage", "--key", metered.ID, "--format", "json"); !strings.Contains(out, `"requests": `+strconv.Itoa(served[metered.Key])) {
			t.Errorf("%s, want %d requests", out, served[metered.Key])
		}
		g.AssertSound(t)
	}
}

// TestASecondMachineWithoutThePepperSaysSo: the keys of the ledger were made with the first one's.
func TestASecondMachineWithoutThePepperSaysSo(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	url := postgrestest.URL(t)
	o := gateway.Options{Config: quick + storeAt(url), DataPath: "extproc", Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}}
	gateway.Run(t, o)
	_, err := gateway.Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "pepper is missing") {
		t.Errorf("%v", err)
	}
}

// TestWithTheDataPathInEnvoyALedgerInPostgresIsRefused: a driver must not run in Envoy's process.
func TestWithTheDataPathInEnvoyALedgerInPostgresIsRefused(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	_, err := gateway.Start(t.Context(), gateway.Options{
		Config: quick + storeAt("postgres://bardo@127.0.0.1/bardo"), DataPath: "module", NoKey: true,
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}},
	})
	if err == nil || !strings.Contains(err.Error(), "with data_path: module the ledger is a file") {
		t.Errorf("%v", err)
	}
}

// TestC18TwoGatewaysShareVectors: in the database of the ledger. What one gateway's model has made of the definitions of tools the other one's does not make again.
func TestC18TwoGatewaysShareVectors(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	url := postgrestest.URL(t)
	gs := machinesWith(t, "store: {ledger: \""+url+"\", vectors: \""+url+"\", vectors_timeout: 1s}\n", gateway.Options{
		Config: withModels(t), Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}},
	})
	rankedByMeaning(t, gs[0], p)
	db, err := postgres.Connect(t.Context(), url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	eventually(t, "46 vectors", func() bool {
		var n int
		return db.QueryRowContext(t.Context(), `SELECT count(*) FROM vectors`).Scan(&n) == nil && n == 46
	})
	const lookups = "bardo_kept_vectors_lookups_total"
	rankedByMeaning(t, gs[1], p)
	if m := gs[1].Metrics(t); m.Sum(lookups, `result="found"`) < 46 || m.Sum(lookups, `result="absent"`) != 0 {
		t.Errorf("the second gateway finds %v vectors, and misses %v", m.Sum(lookups, `result="found"`), m.Sum(lookups, `result="absent"`))
	}
}
