package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// sixCents is what an answer of these tests costs: 0.05 USD, and the spread.
var sixCents = fake.Behaviour{Usage: &fake.Usage{Input: 10_000, Output: 20_000}}

// spenders is a provider with a model for each tier of heartbeats; both cost six cents.
func spenders(p *fake.Server) []gateway.Provider {
	return []gateway.Provider{{ID: "paid", Fake: p, Models: []gateway.Model{
		{ID: "deep", Price: "{input: 1, output: 2}", More: "quality: high, capabilities: [tools, citations, interleaved_thinking], latency_p50_ms: 900"},
		{ID: "swift", Price: "{input: 1, output: 2}", More: "quality: low, capabilities: [tools, low_effort], latency_p50_ms: 200"},
	}}}
}

// ofGolem are the headers of an agent that may spend a dollar a day.
func ofGolem(id, subsystem string, more ...string) []string {
	return append([]string{"X-Bardo-Golem-Id: " + id, "X-Bardo-Subsystem: " + subsystem, "X-Bardo-Daily-Budget-Usd: 1", "X-Bardo-No-Cache: true"}, more...)
}

// TestX12EachPartKeepsToItsBudget: each row of the table of X-12, for each client, streaming and not.
func TestX12EachPartKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(sixCents)
	file := filepath.Join(t.TempDir(), "events.jsonl")
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("\ntelemetry: {events: \"file:%s\"}\n", file), Providers: spenders(p)})
	t.Run("parts", func(t *testing.T) { keepToTheirBudgets(t, g) })
	eventually(t, "an event", func() bool { return len(eventsOf(t, file, "inference:budget_exhausted")) > 0 })
	if e := eventsOf(t, file, "inference:budget_exhausted")[0]; e["part"] == "" || e["degraded"] == "" || e["budget_usd"] == nil || e["golem_id"] == "" {
		t.Errorf("%v", e)
	}
}

func keepToTheirBudgets(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	asks := []ask{
		{dialect: fake.OpenAI, model: "auto"},
		{dialect: fake.OpenAI, model: "auto", stream: true},
		{dialect: fake.Anthropic, model: "auto"},
		{dialect: fake.Anthropic, model: "auto", stream: true},
		{dialect: fake.Gemini, model: "auto"},
	}
	for i, row := range []struct {
		subsystem string
		part      string
		served    int // before the budget is spent: the last one crosses the line
		word      string
		advice    string
	}{
		{"dream", "dream", 3, "budget:skip_cycle", "skip this cycle"},
		{"hypnagogic_dali", "dream", 3, "budget:skip_cycle", "skip this cycle"},
		{"curator", "curator", 2, "budget:skip_cycle", "skip this cycle"},
		{"playbook", "playbook", 1, "budget:skip_cycle", "skip this cycle"},
		{"daimon", "daimon", 1, "budget:occ_rules", "OCC rules"},
		{"daimon_complex", "daimon", 1, "budget:occ_rules", "OCC rules"},
		{"context", "context", 2, "budget:static_heuristics", "static heuristics"},
	} {
		t.Run(row.subsystem, func(t *testing.T) {
			t.Parallel()
			id := "golem-" + strconv.Itoa(i)
			for n := range row.served {
				got := g.Do(t, asks[n].call(ofGolem(id, row.subsystem)...))
				if got.Status != http.StatusOK || strings.Contains(got.Header.Get("X-Bardo-Degraded"), "budget:") || got.Header.Get("X-Bardo-Budget-Remaining") == "" {
					t.Fatalf("request %d: %d %v: %s", n, got.Status, got.Header, got.Body)
				}
			}
			for _, a := range asks {
				got := g.Do(t, a.call(ofGolem(id, row.subsystem)...))
				mustFail(t, a, got, http.StatusTooManyRequests, "budget_exceeded")
				retryAfter(t, got, 24*60*60)
				if got.Header.Get("X-Bardo-Degraded") != row.word || got.Header.Get("X-Bardo-Budget-Remaining") != "0.000000" || got.Header.Get("X-Should-Retry") != "false" {
					t.Errorf("%v", got.Header)
				}
				if !strings.Contains(got.Body, row.advice) || !strings.Contains(got.Body, row.part) {
					t.Errorf("%s", got.Body)
				}
			}
			// Another agent of the key, another part of this one, and who says no budget, are not held to it.
			for _, free := range [][]string{
				ofGolem(id+"-other", row.subsystem), ofGolem(id, "operator"), {"X-Bardo-Golem-Id: " + id, "X-Bardo-Subsystem: " + row.subsystem, "X-Bardo-No-Cache: true"},
			} {
				if got := g.Do(t, asks[0].call(free...)); got.Status != http.StatusOK {
					t.Errorf("%q: %d %s", free, got.Status, got.Body)
				}
			}
		})
	}
}

// eventsOf are the data of the events of a kind in a file.
func eventsOf(t *testing.T, file, kind string) (out []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Event string
			Data  map[string]any
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return out // it is being written
		}
		if e.Event == kind {
			out = append(out, e.Data)
		}
	}
	return out
}

// TestAStoredAnswerCostsNoBudget: it is served once the budget is spent, too.
func TestAStoredAnswerCostsNoBudget(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(sixCents)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: spenders(p)})
	dream := func(say string) gateway.Answer {
		a := ask{dialect: fake.OpenAI, model: "deep", say: say}
		return g.Do(t, a.call("X-Bardo-Golem-Id: g", "X-Bardo-Subsystem: dream", "X-Bardo-Daily-Budget-Usd: 1", "X-Bardo-Cache: force"))
	}
	for _, say := range []string{"one", "two", "three"} {
		if got := dream(say); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != "miss" {
			t.Fatalf("%d %v: %s", got.Status, got.Header, got.Body)
		}
	}
	mustFail(t, ask{dialect: fake.OpenAI}, dream("four"), http.StatusTooManyRequests, "budget_exceeded")
	if got := dream("two"); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != "hash" || got.Header.Get("X-Bardo-Budget-Remaining") != "0.000000" {
		t.Errorf("%d %v: %s", got.Status, got.Header, got.Body)
	}
}

// TestX12HeartbeatsFallToTheFirstTier: and stay there.
func TestX12HeartbeatsFallToTheFirstTier(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(sixCents)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: spenders(p)})
	for n := range 8 {
		a := ask{dialect: fake.OpenAI, model: "auto", stream: n%2 == 1}
		got := g.Do(t, a.call(ofGolem("g", "heartbeat_t2")...))
		model, subsystem, lowered := "deep", "heartbeat_t2", false
		if n >= 4 { // 0.24 of 0.20
			model, subsystem, lowered = "swift", "heartbeat_t1", true
		}
		said := strings.Split(got.Header.Get("X-Bardo-Degraded"), ",")
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != model || got.Header.Get("X-Bardo-Subsystem") != subsystem || slices.Contains(said, "tier:t2->t1") != lowered {
			t.Errorf("request %d: %d %v: %s", n, got.Status, got.Header, got.Body)
		}
		var r struct {
			Degraded  []string `json:"degraded"`
			Subsystem string   `json:"subsystem"`
		}
		eventually(t, "its record", func() bool {
			got := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id")})
			return got.Status == http.StatusOK && json.Unmarshal([]byte(got.Body), &r) == nil
		})
		if slices.Contains(r.Degraded, "tier:t2->t1") != lowered || r.Subsystem != subsystem {
			t.Errorf("request %d: its record has %+v", n, r)
		}
	}
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call(ofGolem("g", "heartbeat_t1")...)); got.Status != http.StatusOK || strings.Contains(got.Header.Get("X-Bardo-Degraded"), "tier:") {
		t.Errorf("a routine beat: %d %v", got.Status, got.Header)
	}
}

// TestD55RiskOperatorAndDeathAreNeverCut: whatever they spend.
func TestD55RiskOperatorAndDeathAreNeverCut(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(sixCents)
	providers := spenders(p)
	providers[0].Models[0].More = strings.Replace(providers[0].Models[0].More, "tools,", "tools, visible_thinking,", 1)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: providers})
	for _, row := range []struct {
		subsystem, left string
	}{{"risk", "0.000000"}, {"operator", "0.000000"}, {"death_testament", ""}} {
		t.Run(row.subsystem, func(t *testing.T) {
			t.Parallel()
			var last gateway.Answer
			for n := range 5 {
				last = g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call(ofGolem("g", row.subsystem, "X-Bardo-Vitality: 0.05")...))
				if said := last.Header.Get("X-Bardo-Degraded"); last.Status != http.StatusOK || strings.Contains(said, "budget:") || strings.Contains(said, "tier:") {
					t.Fatalf("request %d: %d %v: %s", n, last.Status, last.Header, last.Body)
				}
			}
			if left := last.Header.Get("X-Bardo-Budget-Remaining"); left != row.left {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// TestWhatAnAgentSpentOutlivesAKill: with the charge, for prepaid keys and metered ones.
func TestWhatAnAgentSpentOutlivesAKill(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(sixCents)
	o := gateway.Options{Config: quick, Providers: spenders(p)}
	g := gateway.Run(t, o)
	prepaid := g.CreateKey(t, "--name", "prepaid", "--balance-usd", "5")
	call := func(key, subsystem string) gateway.Call {
		c := ask{dialect: fake.OpenAI, model: "auto"}.call(ofGolem("g", subsystem)...)
		c.Key = key
		return c
	}
	for _, key := range []string{prepaid.Key, g.Key} {
		if got := g.Do(t, call(key, "daimon")); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	eventually(t, "the metered request's record", func() bool {
		var u struct{ Data []used }
		g.Do(t, gateway.Call{Path: "/v1/usage?by=subsystem"}).JSON(t, &u)
		return len(u.Data) == 1
	})
	g.Kill()
	o.Home, o.NoKey = g.Home, true
	again := gateway.Run(t, o)
	for _, key := range []string{prepaid.Key, g.Key} {
		got := again.Do(t, call(key, "daimon"))
		mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusTooManyRequests, "budget_exceeded")
		if got := again.Do(t, call(key, "dream")); got.Status != http.StatusOK {
			t.Errorf("another part: %d %s", got.Status, got.Body)
		}
		for _, path := range []string{"/v1/balance", "/v1/usage"} {
			if got := again.Do(t, gateway.Call{Path: path, Key: key, Header: ofGolem("g", "daimon")}); got.Status != http.StatusOK {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
		}
	}
	again.AssertSound(t)
}

// TestK70RequestsUnderWayHoldAnAgentsBudget: of ten dreams at one time only those are asked that the budget may bear, and one more.
func TestK70RequestsUnderWayHoldAnAgentsBudget(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	b := sixCents
	b.HeaderDelay = 2 * time.Second
	p.Behave(b)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: spenders(p)})
	a := ask{dialect: fake.OpenAI, model: "deep", more: `"max_tokens":30000`} // 0.072, and the input
	got := atOnce(t, g, 10, a.call(ofGolem("g", "dream")...))
	if n := byStatus(t, a, got); n[http.StatusOK] != 3 || n[http.StatusTooManyRequests] != 7 {
		t.Fatalf("answers %v", n)
	}
	for _, one := range got {
		if one.Status == http.StatusTooManyRequests && one.Header.Get("Retry-After") == "" {
			t.Errorf("%v", one.Header)
		}
	}
}

// TestGatewaysOfOneLedgerShareBudgets: what one has charged, another knows when it is applied to the store.
func TestGatewaysOfOneLedgerShareBudgets(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	gs, _ := sharers(t, sixCents)
	a := ask{dialect: fake.OpenAI, model: "m", stream: true}
	call := func(subsystem string, header ...string) gateway.Call {
		c := a.call(append([]string{"X-Bardo-Golem-Id: g", "X-Bardo-Subsystem: " + subsystem, "X-Bardo-No-Cache: true"}, header...)...)
		c.Key = gs[0].Key
		return c
	}
	for range 3 {
		if got := gs[0].Do(t, call("dream", "X-Bardo-Daily-Budget-Usd: 1")); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	var refused gateway.Answer
	eventually(t, "the other's charges in the store", func() bool { // they are applied some milliseconds behind the answers
		refused = gs[1].Do(t, call("dream", "X-Bardo-Daily-Budget-Usd: 1"))
		return refused.Status != http.StatusOK
	})
	mustFail(t, a, refused, http.StatusTooManyRequests, "budget_exceeded")
	if got := gs[1].Do(t, call("risk")); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	own := 0
	polltest.Until(t, "what the other charged", func() bool {
		left := gs[0].Do(t, call("risk", "X-Bardo-Daily-Budget-Usd: 100000")).Header.Get("X-Bardo-Budget-Remaining")
		own++
		return left == fmt.Sprintf("%.6f", 15000-0.06*float64(own)) // its own charges before this one, and the other's
	})
}

// TestStakedCreditIsOutsideTheBudget: what Venice serves for nothing is served, and counts for nothing.
func TestStakedCreditIsOutsideTheBudget(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice})
	p.Behave(sixCents)
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers: {venice: {base_url: %q, api_key: %s, diem_staked: true, models: [{id: deepseek-r1, price: {input: 1, output: 2}, latency_p50_ms: 300, quality: high}]}}
`, p.URL, p.Key)})
	a := ask{dialect: fake.OpenAI, model: "auto"}
	staked := ofGolem("g", "daimon_complex", "X-Bardo-Diem-Available: true")
	for n := range 3 {
		got := g.Do(t, a.call(staked...))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "0.000000" || got.Header.Get("X-Bardo-Budget-Remaining") != "0.050000" {
			t.Fatalf("staked request %d: %d %v: %s", n, got.Status, got.Header, got.Body)
		}
	}
	if got := g.Do(t, a.call(ofGolem("g", "daimon_complex")...)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "0.060000" {
		t.Fatalf("%d %v: %s", got.Status, got.Header, got.Body)
	}
	mustFail(t, a, g.Do(t, a.call(ofGolem("g", "daimon_complex")...)), http.StatusTooManyRequests, "budget_exceeded")
	if got := g.Do(t, a.call(staked...)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "0.000000" {
		t.Errorf("once the budget is spent: %d %v: %s", got.Status, got.Header, got.Body)
	}
}

// TestStakedCreditEndsWithItsDay: beyond what it pays for in a day, Venice's answers cost what they cost, and the answer says so.
func TestStakedCreditEndsWithItsDay(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice})
	p.Behave(sixCents)
	o := gateway.Options{Config: quick + fmt.Sprintf(`
providers: {venice: {base_url: %q, api_key: %s, diem_staked: true, diem_daily_usd: 0.08, models: [{id: deepseek-r1, price: {input: 1, output: 2}, latency_p50_ms: 300, quality: high}]}}
`, p.URL, p.Key)}
	g := gateway.Run(t, o)
	a := ask{dialect: fake.OpenAI, model: "auto"}
	staked := func(g *gateway.Gateway) gateway.Answer {
		t.Helper()
		return served(t, g, a, ofGolem("g", "dream_rem", "X-Bardo-Diem-Available: true")...)
	}
	said := func(got gateway.Answer) bool {
		return slices.Contains(strings.Split(got.Header.Get("X-Bardo-Degraded"), ","), "diem_available")
	}
	for n := range 2 { // 0.05 each, so that the second crosses the line
		if got := staked(g); got.Header.Get("X-Bardo-Cost") != "0.000000" || said(got) {
			t.Fatalf("staked request %d: %v", n, got.Header)
		}
	}
	o.Home, o.NoKey = g.Home, true
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	again := gateway.Run(t, o)
	again.Key = g.Key
	if got := staked(again); got.Header.Get("X-Bardo-Cost") != "0.060000" || !said(got) {
		t.Errorf("once it is used up: %v", got.Header)
	}
}

// TestAWalletsSustainabilityMovesBudgets: by what the configuration says that it earned and spent.
func TestAWalletsSustainabilityMovesBudgets(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	for _, row := range []struct {
		about, revenue, cost string
		dream, risk          string
	}{
		{"it earns far more than it spends", "30", "10", "0.225000", "0.225000"},
		{"it earns a little more", "11", "10", "0.150000", "0.150000"},
		{"it earns less than half", "4", "10", "0.045000", "0.150000"},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  bankr: {endpoint: %q, api_key: %s, revenue_balance_usd: 100, lifetime_revenue_usd: %s, lifetime_cost_usd: %s, models: [{id: claude-haiku-4-5, price: {input: 1, output: 2}}]}
  custom: [{id: paid, endpoints: [%[1]q], api_key: %[2]s, models: [{id: deep, quality: maximum, price: {input: 1, output: 2}}]}]
`, p.URL, p.Key, row.revenue, row.cost)})
			for subsystem, want := range map[string]string{"dream": row.dream, "risk": row.risk} {
				got := g.Do(t, ask{dialect: fake.OpenAI, model: "deep", stream: true}.call(ofGolem("g", subsystem)...))
				if left := got.Header.Get("X-Bardo-Budget-Remaining"); got.Status != http.StatusOK || left != want {
					t.Errorf("%s has %q, want %q: %d %s", subsystem, left, want, got.Status, got.Body)
				}
			}
		})
	}
}
