package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// used is one row of usage.
type used struct {
	Name         string      `json:"name"`
	Requests     int         `json:"requests"`
	Input        int         `json:"input_tokens"`
	Cached       int         `json:"cached_tokens"`
	CacheWrite   int         `json:"cache_write_tokens"`
	Output       int         `json:"output_tokens"`
	Reasoning    int         `json:"reasoning_tokens"`
	Cost         json.Number `json:"cost_usd"`
	ProviderCost json.Number `json:"provider_cost_usd"`
}

// cells are the row's fields in the order of the CSV.
func (u used) cells() []string {
	c := []string{u.Name}
	for _, n := range []int{u.Requests, u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning} {
		c = append(c, strconv.Itoa(n))
	}
	return append(c, string(u.Cost), string(u.ProviderCost))
}

type usageCase struct {
	a         ask
	subsystem string
	key       string
}

// TestUsage is the same sum on the command line, in each of its formats, and over HTTP.
func TestUsage(t *testing.T) {
	t.Parallel()
	day := withinOneDay(t)
	o, n := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	o.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Cached: 10, Output: 50, Reasoning: 20}})
	n.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 200, CacheWrite5m: 30, Output: 5}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "oo", Fake: o, Models: []gateway.Model{{ID: "gpt-x", Price: "{input: 1, output: 10, cached_input: 0.5}"}, {ID: "=gpt-y", Price: "{input: 1, output: 10, cached_input: 0.5}"}}},
		{ID: "nn", Fake: n, Format: "anthropic", Models: []gateway.Model{{ID: "claude-x", Price: "{input: 2, output: 20, cache_write: 2.5}"}}},
	}})
	k, other := g.CreateKey(t, "--name", "k", "--balance-usd", "1"), g.CreateKey(t, "--name", "other")
	for _, r := range []usageCase{
		{ask{dialect: fake.OpenAI, model: "gpt-x"}, "risk", k.Key},
		{ask{dialect: fake.Anthropic, model: "gpt-x", stream: true}, "heartbeat_t1", k.Key},
		{ask{dialect: fake.OpenAI, model: "=gpt-y"}, "my_own_name_7", k.Key},
		{ask{dialect: fake.Anthropic, model: "claude-x", stream: true}, "", k.Key},
		{ask{dialect: fake.OpenAI, model: "claude-x"}, "risk", other.Key},
	} {
		c := r.a.with(r.key)
		if r.subsystem != "" {
			c.Header = append(c.Header, "X-Bardo-Subsystem: "+r.subsystem)
		}
		if got := g.Do(t, c); got.Status != http.StatusOK {
			t.Fatalf("%+v: %d %s", r, got.Status, got.Body)
		}
	}
	// A request of gpt-x costs 605 millionths, one of claude-x 575; with 20 percent on top 726 and 690.
	gpt := used{"", 1, 100, 10, 0, 50, 20, "0.000726", "0.000605"}
	claude := used{"", 1, 200, 0, 30, 5, 0, "0.000690", "0.000575"}
	named := func(u used, name string) used { u.Name = name; return u }
	want := map[string][]used{
		"model":     {{"gpt-x", 2, 200, 20, 0, 100, 40, "0.001452", "0.00121"}, named(gpt, "=gpt-y"), named(claude, "claude-x")},
		"provider":  {{"oo", 3, 300, 30, 0, 150, 60, "0.002178", "0.001815"}, named(claude, "nn")},
		"subsystem": {named(gpt, "heartbeat_t1"), named(gpt, "other"), named(gpt, "risk"), named(claude, "")},
		"day":       {{day, 4, 500, 30, 30, 155, 60, "0.002868", "0.00239"}},
	}
	check := func(t *testing.T) {
		t.Helper()
		for by, rows := range want {
			checkUsage(t, g, k.ID, by, rows)
		}
		eventually(t, "the other key's request", func() bool {
			return strings.Contains(g.Bardo(t, "usage", "--by", "provider", "--format", "csv"), "\nnn,2,")
		})
	}
	check(t)
	for by, rows := range want {
		checkUsageOverHTTP(t, g, k.Key, by, day, rows)
	}
	for _, q := range []string{"by=price", "since=yesterday", "until=1", "by=%zz", "BY=model", "from=2026-11-21", "by=model&by=day", "golem=", "key=" + k.ID} {
		if got := g.Do(t, gateway.Call{Path: "/v1/usage?" + q, Key: k.Key}); got.Status != http.StatusBadRequest {
			t.Errorf("GET /v1/usage?%s: %d %s", q, got.Status, got.Body)
		}
	}
	t.Run("with the gateway stopped", func(t *testing.T) { checkUsageOffline(t, g, check, k) })
}

func checkUsageOffline(t *testing.T, g *gateway.Gateway, check func(t *testing.T), k gateway.NewKey) {
	t.Helper()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	check(t)
	checkBalanceCommand(t, g, k.ID, "0.997132")
	g.Bardo(t, "deposit", k.ID, "--usd", "2", "--ref", "while it slept")
	checkBalanceCommand(t, g, k.ID, "2.997132")
	g.Bardo(t, "keys", "update", k.ID, "--name", "renamed")
	if out := g.Bardo(t, "keys", "list"); !strings.Contains(out, "renamed") || !strings.Contains(out, "$2.997132") {
		t.Errorf("keys list: %s", out)
	}
	g.CreateKey(t, "--name", "born in the dark", "--balance-usd", "3")
	g.AssertSound(t)
}

// checkUsageOverHTTP compares what GET /v1/usage answers, of all time, of a day and of long ago.
func checkUsageOverHTTP(t *testing.T, g *gateway.Gateway, key, by, day string, rows []used) {
	t.Helper()
	var got struct {
		By   string
		Data []used
	}
	get(t, g, key, "/v1/usage?by="+by, &got)
	if got.By != by || !slices.Equal(got.Data, rows) {
		t.Errorf("GET /v1/usage?by=%s: %+v, want %+v", by, got, rows)
	}
	get(t, g, key, "/v1/usage?by="+by+"&since="+day+"&until="+day, &got)
	if !slices.Equal(got.Data, rows) {
		t.Errorf("of today, by %s: %+v", by, got)
	}
	get(t, g, key, "/v1/usage?by="+by+"&until=2020-01-01", &got)
	if got.Data == nil || len(got.Data) != 0 {
		t.Errorf("of long ago, by %s: %+v", by, got)
	}
}

// checkUsage compares what the command line prints in each format.
func checkUsage(t *testing.T, g *gateway.Gateway, key, by string, want []used) {
	t.Helper()
	args := []string{"usage", "--key", key, "--by", by, "--format"}
	var rows []used
	if err := json.Unmarshal([]byte(g.Bardo(t, append(args, "json")...)), &rows); err != nil || !slices.Equal(rows, want) {
		t.Errorf("JSON by %s: %+v %v, want %+v", by, rows, err, want)
	}
	records, err := csv.NewReader(strings.NewReader(g.Bardo(t, append(args, "csv")...))).ReadAll()
	if err != nil || len(records) != len(want)+1 || records[0][0] != by || records[0][8] != "provider_cost_usd" {
		t.Fatalf("CSV by %s: %q %v", by, records, err)
	}
	for i, u := range want {
		cells := u.cells()
		if strings.HasPrefix(u.Name, "=") {
			cells[0] = "'" + u.Name // must not become a formula
		}
		if !slices.Equal(records[i+1], append(cells, "0", "0.000000", cells[7])) { // none was refused, and no layer saved anything
			t.Errorf("CSV by %s: %q, want %q", by, records[i+1], cells)
		}
	}
	lines := strings.Split(strings.TrimSpace(g.Bardo(t, append(args, "table")...)), "\n")
	if len(lines) != len(want)+2 || !strings.HasPrefix(lines[0], strings.ToUpper(by)) || !strings.HasPrefix(lines[len(lines)-1], "total") {
		t.Fatalf("table by %s:\n%s", by, strings.Join(lines, "\n"))
	}
	for i, u := range want {
		if cells := strings.Fields(lines[i+1]); len(cells) != 9 || !slices.Equal(cells[1:], u.cells()[1:]) {
			t.Errorf("table by %s: %q, want %q", by, lines[i+1], u.cells())
		}
	}
}

// TestSubsystems: a known name is kept, another one counted as such, and what is no name refused.
func TestSubsystems(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	for _, r := range []struct{ name, kept string }{
		{"risk", "risk"},
		{"dream_rem_creative", "dream_rem_creative"},
		{"session", "session"},
		{"x", "other"},
		{strings.Repeat("a", 64), "other"},
		{"", ""},
		{strings.Repeat("a", 65), ""},
		{"Risk", ""},
		{"risk!", ""},
		{"a b", ""},
		{"dream-rem", ""},
		{"träume", ""},
	} {
		for _, a := range both {
			t.Run(fmt.Sprintf("%.10q to %s, stream=%v", r.name, a.dialect, a.stream), func(t *testing.T) {
				got := g.Do(t, a.call("X-Bardo-Subsystem: "+r.name))
				if r.kept == "" {
					mustFail(t, a, got, http.StatusBadRequest, "invalid_request")
					if !strings.Contains(got.Body, "X-Bardo-Subsystem") {
						t.Errorf("%s does not name the header", got.Body)
					}
					return
				}
				if b := billOf(t, g, g.Key, got.Header.Get("X-Request-Id")); b.Subsystem != r.kept || got.Header.Get("X-Bardo-Subsystem") != r.kept {
					t.Errorf("record %+v, header %q", b, got.Header.Get("X-Bardo-Subsystem"))
				}
				if lastOf(t, p).Header.Get("X-Bardo-Subsystem") != "" {
					t.Error("the provider saw it")
				}
			})
		}
	}
}
