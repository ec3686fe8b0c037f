package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// randomCharges are charges on three days: of two keys of a project, one of another, a metered one without a project, and without a key.
func randomCharges(rng *rand.Rand, n int) (all []Charge) {
	pick := func(names ...string) string { return names[rng.IntN(len(names))] }
	for i := range n {
		c := Charge{
			RequestID: fmt.Sprint("r", i), Account: policy.Account(pick("a", "b", "c", "m", "")), Amount: policy.Micro(rng.IntN(1000)),
			ProviderCost: policy.Pico(rng.IntN(1_000_000)), Model: policy.ModelID(pick("x", "y")), Provider: policy.ProviderID(pick("p", "q")),
			Subsystem: pick("", "dream", "risk"), Agent: pick("", "g1", "g2"), At: monday.AddDate(0, 0, rng.IntN(3)),
			Tokens: Tokens{Input: int64(rng.IntN(100)), Output: int64(rng.IntN(100))},
		}
		for _, layer := range []string{"l1", "l4"} {
			if rng.IntN(2) == 0 {
				c.Savings = append(c.Savings, policy.Saving{Layer: layer, Tokens: int64(rng.IntN(50)), Amount: policy.Micro(rng.IntN(100) - 20)})
			}
		}
		all = append(all, c)
	}
	return all
}

// nameIn is the value of a charge in a dimension.
func nameIn(c *Charge, by By) string {
	projects := map[policy.Account]string{"a": "web", "b": "web", "c": "batch"}
	switch by {
	case ByKey:
		return string(c.Account)
	case ByProject:
		return projects[c.Account]
	case ByGolem:
		return c.Agent
	case BySubsystem:
		return c.Subsystem
	case ByModel:
		return string(c.Model)
	case ByProvider:
		return string(c.Provider)
	case ByDay, ByLayer:
	}
	return c.At.Format(time.DateOnly)
}

// combinations are all dimensions, and all pairs of them.
func combinations() (all [][]By) {
	names := usage.Dimensions()
	for i, a := range names {
		all = append(all, []By{By(a)})
		for _, b := range names[i+1:] {
			all = append(all, []By{By(a), By(b)}, []By{By(b), By(a)})
		}
	}
	return all
}

// TestReportsSumWhatTheLedgerCharged: by each dimension and each pair of them, whether the store has the charges or not; and all reports have the same sum,
// which for prepaid keys is that of the journal.
func TestReportsSumWhatTheLedgerCharged(t *testing.T) {
	path := storePath(t)
	l := openWith(t, path, Options{Gateway: true, Flush: time.Hour})
	createKeys(t, l)
	all := randomCharges(rand.New(rand.NewPCG(7, 7)), 150)
	for i := range all {
		c := all[i]
		if c.Account == "m" || c.Account == "" {
			if err := l.Record(c); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := l.Capture(t.Context(), reserve(t, l, c.Account, c.RequestID, c.Amount), c); err != nil {
			t.Fatal(err)
		}
	}
	compareReports(t, l, all)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	books := tool(t, path)
	compareReports(t, books, all)
	compareJournal(t, books, all)
	wantClean(t, books)
}

// createKeys creates the keys of randomCharges, with enough money.
func createKeys(t *testing.T, l *Ledger) {
	t.Helper()
	err := l.CreateGroup(t.Context(), Group{Kind: policy.OfOwner, ID: "acme"})
	for _, id := range []string{"web", "batch"} {
		err = errors.Join(err, l.CreateGroup(t.Context(), Group{Kind: policy.OfProject, ID: id, Owner: "acme"}))
	}
	for id, project := range map[policy.Account]string{"a": "web", "b": "web", "c": "batch"} {
		err = errors.Join(err, l.CreateKey(t.Context(), KeyRow{ID: id, Prepaid: true, Project: project}, 10*usd))
	}
	if err = errors.Join(err, l.CreateKey(t.Context(), KeyRow{ID: "m"}, 0)); err != nil {
		t.Fatal(err)
	}
}

func compareReports(t *testing.T, l *Ledger, all []Charge) {
	t.Helper()
	for _, by := range combinations() {
		if by[0] == ByLayer || by[len(by)-1] == ByLayer {
			compareLayers(t, l, all, by)
			continue
		}
		want := map[string]UsageRow{}
		for i := range all {
			c := &all[i]
			key := nameIn(c, by[0]) + "|" + nameIn(c, by[len(by)-1])
			r := want[key]
			r.Requests++
			r.Input += c.Tokens.Input
			r.Output += c.Tokens.Output
			r.Cost += c.Amount
			r.ProviderCost += c.ProviderCost
			for _, s := range c.Savings {
				r.Saved += s.Amount
			}
			want[key] = r
		}
		sums, err := l.Sums(t.Context(), Query{By: by})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]UsageRow{}
		for _, s := range sums {
			s.Name = ""
			have[s.Names[0]+"|"+s.Names[len(by)-1]] = s.Row
		}
		if !reflect.DeepEqual(have, want) || len(sums) != len(want) {
			t.Errorf("by %v: %+v\nwant %+v", by, have, want)
		}
	}
}

func compareLayers(t *testing.T, l *Ledger, all []Charge, by []By) {
	t.Helper()
	want := map[string]SavingRow{}
	for i := range all {
		for _, s := range all[i].Savings {
			name := func(by By) string {
				if by == ByLayer {
					return s.Layer
				}
				return nameIn(&all[i], by)
			}
			key := name(by[0]) + "|" + name(by[len(by)-1])
			r := want[key]
			want[key] = SavingRow{Layer: s.Layer, Requests: r.Requests + 1, Tokens: r.Tokens + s.Tokens, Amount: r.Amount + s.Amount}
		}
	}
	sums, err := l.LayerSums(t.Context(), Query{By: by})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]SavingRow{}
	for _, s := range sums {
		have[s.Names[0]+"|"+s.Names[len(by)-1]] = s.SavingRow
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("by %v: %+v\nwant %+v", by, have, want)
	}
}

// compareJournal checks that the journal's revenue is the reports' sum of prepaid keys, that exported requests have the same sums, and that journals sum to zero.
func compareJournal(t *testing.T, l *Ledger, all []Charge) {
	t.Helper()
	revenue, journals := policy.Micro(0), map[int64]policy.Micro{}
	err := l.EachBooking(t.Context(), RequestFilter{}, func(p *Booking) error {
		journals[p.Journal] += p.Amount
		if p.Account == "operator:revenue" {
			revenue += p.Amount
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, sum := range journals {
		if sum != 0 {
			t.Errorf("journal %d sums to %s", id, sum)
		}
	}
	var exported, reported policy.Micro
	err = l.EachRequest(t.Context(), RequestFilter{}, func(r *Request) error {
		exported += r.Charged
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sums, err := l.Sums(t.Context(), Query{By: []By{ByKey}})
	if err != nil {
		t.Fatal(err)
	}
	var total policy.Micro
	for _, s := range sums {
		total += s.Cost
		if s.Name != "m" && s.Name != "" {
			reported += s.Cost
		}
	}
	if revenue != reported || exported != total || len(all) == 0 || total == 0 {
		t.Errorf("the journal has %s, the reports of prepaid keys %s; exports %s, reports %s", revenue, reported, exported, total)
	}
}

func TestReportsOfSome(t *testing.T) {
	l := gateway(t, storePath(t))
	createKeys(t, l)
	for i, c := range []Charge{
		{Account: "a", Agent: "g1", Amount: 10, Model: "x", At: monday},
		{Account: "b", Agent: "g1", Amount: 20, Model: "y", At: monday.AddDate(0, 0, 1)},
		{Account: "c", Agent: "g2", Amount: 40, Model: "x", At: monday.AddDate(0, 0, 2)},
	} {
		c.RequestID = fmt.Sprint("r", i)
		if _, err := l.Capture(t.Context(), reserve(t, l, c.Account, c.RequestID, c.Amount), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		sentence string
		q        Query
		want     string
	}{
		{"the keys of a project", Query{Filter: Filter{Project: "web"}, By: []By{ByKey}}, "b 20, a 10"},
		{"an agent's models", Query{Filter: Filter{Golem: "g2"}, By: []By{ByModel}}, "x 40"},
		{"one key's projects", Query{Filter: Filter{Account: "c"}, By: []By{ByProject}}, "batch 40"},
		{"days come in order of time", Query{By: []By{ByDay, ByKey}}, "2026-03-02/a 10, 2026-03-03/b 20, 2026-03-04/c 40"},
		{"a period", Query{Filter: Filter{Since: monday.AddDate(0, 0, 1), Until: monday.AddDate(0, 0, 1)}, By: []By{ByGolem, ByModel, ByKey}}, "g1/y/b 20"},
		{"an unknown project", Query{Filter: Filter{Project: "x"}, By: []By{ByKey}}, ""},
	} {
		sums, err := l.Sums(t.Context(), c.q)
		var rows []string
		for _, s := range sums {
			rows = append(rows, fmt.Sprint(strings.Join(s.Names, "/"), " ", int64(s.Cost)))
		}
		if have := strings.Join(rows, ", "); err != nil || have != c.want {
			t.Errorf("%s: %s, %v, want %s", c.sentence, have, err, c.want)
		}
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	l := gateway(t, storePath(t))
	for i := range 5 {
		if err := l.Record(Charge{RequestID: fmt.Sprint("r", i), Agent: fmt.Sprint("g", i), At: monday}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		by   []By
		most int
		want error
	}{
		{[]By{ByGolem}, 5, nil},
		{[]By{ByGolem}, 4, usage.ErrTooMany},
		{nil, 0, usage.ErrBy},
		{[]By{"moon"}, 0, usage.ErrBy},
		{[]By{ByDay, ByDay}, 0, usage.ErrBy},
		{[]By{ByDay, ByKey, ByGolem, ByModel}, 0, usage.ErrBy},
	} {
		if _, err := l.Sums(t.Context(), Query{By: c.by, MaxRows: c.most}); !errors.Is(err, c.want) {
			t.Errorf("by %v, at most %d: %v, want %v", c.by, c.most, err, c.want)
		}
	}
	if _, err := l.Sums(t.Context(), Query{By: []By{ByLayer}}); err == nil {
		t.Error("usage by layer was given")
	}
	if _, err := l.LayerSums(t.Context(), Query{By: []By{ByDay}}); err == nil {
		t.Error("savings without a layer were given")
	}
}

// TestExportsAreOfAPeriod: requests and postings of a period and a key, whether the store has them or not, until an error.
func TestExportsAreOfAPeriod(t *testing.T) {
	path := storePath(t)
	l := openWith(t, path, Options{Gateway: true, Flush: time.Hour})
	createKeys(t, l)
	for i := range 6 {
		c := Charge{RequestID: fmt.Sprint("r", i), Account: []policy.Account{"a", "b"}[i%2], Agent: "g", Amount: 7, At: monday.AddDate(0, 0, i)}
		if _, err := l.Capture(t.Context(), reserve(t, l, c.Account, c.RequestID, c.Amount), c); err != nil {
			t.Fatal(err)
		}
	}
	exported := func(l *Ledger, f RequestFilter) (ids []string) {
		t.Helper()
		err := l.EachRequest(t.Context(), f, func(r *Request) error {
			ids = append(ids, r.RequestID+r.Agent)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	check := func(l *Ledger) {
		t.Helper()
		for _, c := range []struct {
			f    RequestFilter
			want int
		}{
			{RequestFilter{}, 6},
			{RequestFilter{Account: "a"}, 3},
			{RequestFilter{Since: monday.AddDate(0, 0, 2), Until: monday.AddDate(0, 0, 3)}, 2},
			{RequestFilter{Account: "b", Since: monday.AddDate(0, 0, 5)}, 1},
		} {
			if ids := exported(l, c.f); len(ids) != c.want || !strings.HasSuffix(ids[0], "g") {
				t.Errorf("%+v: %v, want %d", c.f, ids, c.want)
			}
		}
	}
	check(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	books := tool(t, path)
	check(books)
	mine := errors.New("mine")
	stop := func(n *int) error {
		if *n++; *n == 2 {
			return mine
		}
		return nil
	}
	var requests, postings, all int
	if err := books.EachRequest(t.Context(), RequestFilter{}, func(*Request) error { return stop(&requests) }); !errors.Is(err, mine) || requests != 2 {
		t.Errorf("%d requests, %v", requests, err)
	}
	if err := books.EachBooking(t.Context(), RequestFilter{}, func(*Booking) error { return stop(&postings) }); !errors.Is(err, mine) || postings != 2 {
		t.Errorf("%d postings, %v", postings, err)
	}
	err := books.EachBooking(t.Context(), RequestFilter{Account: "a", Until: monday.AddDate(0, 0, 10)}, func(p *Booking) error {
		if all++; p.Account == "b" || p.Amount == 0 || p.Kind != "charge" {
			t.Errorf("%+v", p)
		}
		return nil
	})
	if err != nil || all != 6 { // of three charges: from the key, and to the revenue
		t.Errorf("%d postings of a key, %v", all, err)
	}
}

// TestSumsOfVersion9: a store of version 9 has the same sums after its migration.
func TestSumsOfVersion9(t *testing.T) {
	path := missingStore(t)
	change(t, path, append(stepsTo(t, path, 9),
		`INSERT INTO usage (account, day, model, provider, subsystem, requests, input, cached, cache_write, output, reasoning, charged, provider_cost, refused, saved)
	VALUES ('k', 3, 'm', 'p', 's', 5, 1, 2, 3, 4, 1, 600, 7, 2, 80)`,
		`INSERT INTO saving (account, day, layer, requests, tokens, saved) VALUES ('k', 3, 'l4', 3, 9, 80)`,
	)...)
	l := gateway(t, path)
	if err := l.Record(Charge{RequestID: "r", Account: "k", Agent: "g", Amount: 1, Model: "m", Provider: "p", Subsystem: "s", At: time.Unix(3*86400, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	books := tool(t, path)
	sums, err := books.Sums(t.Context(), Query{By: []By{ByGolem, ByModel}})
	if err != nil || len(sums) != 2 || sums[0].Cost != 600 || sums[0].Requests != 5 || sums[0].Refused != 2 || sums[0].Saved != 80 || sums[0].Names[0] != "" || sums[1].Names[0] != "g" {
		t.Errorf("%+v, %v", sums, err)
	}
	saved, err := books.Savings(t.Context(), Filter{})
	if err != nil || !reflect.DeepEqual(saved, []SavingRow{{Layer: "l4", Requests: 3, Tokens: 9, Amount: 80}}) {
		t.Errorf("%+v, %v", saved, err)
	}
}

// stepsTo returns the statements that create a store of an earlier version.
func stepsTo(t *testing.T, path string, version int) (steps []string) {
	t.Helper()
	folder, first := "store/schema/", 1
	if store.IsPostgres(path) {
		folder, first = "store/schema/postgres/", 8
		steps = append(steps, `DO $$ BEGIN EXECUTE format('CREATE SCHEMA %I', trim(split_part(current_setting('search_path'), ',', 1), ' "')); END $$`)
	} else {
		steps = append(steps, `PRAGMA journal_mode = WAL`, fmt.Sprint(`PRAGMA user_version = `, version))
	}
	for v := first; v <= version; v++ {
		text, err := os.ReadFile(fmt.Sprint(folder, v, ".sql"))
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, string(text))
	}
	if store.IsPostgres(path) {
		steps = append(steps, fmt.Sprint(`UPDATE ledger SET version = `, version))
	}
	return steps
}
