package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planIn runs `bardo plan` in a fixture's directory.
func planIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	t.Chdir(dir)
	t.Setenv("BARDO_HOME", t.TempDir())
	var out strings.Builder
	c := root()
	c.SetArgs(append([]string{"plan", "-c", "config.yaml"}, args...))
	c.SetOut(&out)
	err := c.Execute()
	return out.String(), err
}

func fixtureDir(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "policy", "resolve", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWhatBardoPlanPrints for typical configurations.
func TestWhatBardoPlanPrints(t *testing.T) {
	goldens, err := filepath.Abs(filepath.Join("testdata", "plan"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"typical", "minimal", "full"} {
		t.Run(name, func(t *testing.T) {
			got, err := planIn(t, fixtureDir(t, name))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(goldens, name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s:\n--- got\n%s--- want\n%s", path, got, want)
			}
		})
	}
}

// jsonPlan is a plan as decoded from --json.
type jsonPlan struct {
	Ticks int64 `json:"ticks_per_day"`
	Tiers []struct {
		Tier, Provider, Model string
		PerCall               float64 `json:"per_call_usd"`
		Known                 bool    `json:"price_known"`
	}
	Days []struct {
		Mix  string
		Cost float64 `json:"cost_usd"`
	}
	Month struct {
		Tasks []struct {
			Task    string
			PerDay  int64   `json:"calls_per_day"`
			Premium int64   `json:"premium_pct"`
			Cost    float64 `json:"cost_usd"`
		}
		PrivateUSD float64 `json:"private_usd"`
	}
	Notes []string
}

func jsonPlanIn(t *testing.T, dir string, args ...string) (p jsonPlan) {
	t.Helper()
	out, err := planIn(t, dir, append(args, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return p
}

func written(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestR25ADayCostsWhatWasProjected: the days of R-25 with their models: $0.05, $0.20 and $0.83 a day, rounded.
func TestR25ADayCostsWhatWasProjected(t *testing.T) {
	p := jsonPlanIn(t, written(t, `
providers: {blockrun: {endpoint: https://blockrun.test/api, api_key: test, models: [{id: claude-haiku-4-5}, {id: claude-sonnet-4}, {id: claude-opus-4-6}]}}
inference: {tiers: {T1: {provider: blockrun/claude-haiku-4-5}, T2: {provider: blockrun/claude-sonnet-4}}}
`))
	want := map[string]float64{"calm": 0.05, "normal": 0.20, "volatile": 0.83}
	for _, d := range p.Days {
		if d.Cost < want[d.Mix]-0.015 || d.Cost > want[d.Mix]+0.015 {
			t.Errorf("a %s day costs %v, want about %v: %+v", d.Mix, d.Cost, want[d.Mix], p.Tiers)
		}
	}
	if len(p.Days) != len(want) || p.Ticks != 100 {
		t.Errorf("got %+v", p)
	}
}

func TestOneMarketAndMoreTicks(t *testing.T) {
	dir := fixtureDir(t, "minimal")
	all, one := jsonPlanIn(t, dir), jsonPlanIn(t, dir, "--mix", "volatile", "--ticks", "300")
	if len(one.Days) != 1 || one.Days[0].Mix != "volatile" || one.Ticks != 300 {
		t.Fatalf("got %+v", one.Days)
	}
	if d := one.Days[0].Cost - 3*all.Days[2].Cost; d > 1e-9 || d < -1e-9 {
		t.Errorf("three times the ticks cost %v, not three times %v", one.Days[0].Cost, all.Days[2].Cost)
	}
}

func TestStakedCreditPaysForPrivateTasks(t *testing.T) {
	p := jsonPlanIn(t, fixtureDir(t, "full"))
	for _, task := range p.Month.Tasks {
		if free := task.Cost == 0; free == (task.Task == "heartbeat") {
			t.Errorf("%s costs %v a month", task.Task, task.Cost)
		}
	}
	if p.Month.PrivateUSD != 0 || !strings.Contains(strings.Join(p.Notes, "\n"), "venice is paid by staked DIEM") {
		t.Errorf("got %v, notes %q", p.Month.PrivateUSD, p.Notes)
	}
}

func TestPrivacyHasItsPremiumWhereThereIsSome(t *testing.T) {
	minimal := fixtureDir(t, "minimal") // before the working directory changes
	premium := func(p jsonPlan) (most int64) {
		for _, task := range p.Month.Tasks {
			most = max(most, task.Premium)
		}
		return most
	}
	sealed := jsonPlanIn(t, written(t, `
providers:
  venice: {base_url: https://venice.test/v1, api_key: test, models: [{id: llama-3.3-70b, price: {input: 1, output: 4}, quality: high}]}
`))
	if premium(sealed) != 30 {
		t.Errorf("got %+v", sealed.Month.Tasks)
	}
	open := jsonPlanIn(t, minimal)
	if premium(open) != 0 || !strings.Contains(strings.Join(open.Notes, "\n"), "no provider is private") {
		t.Errorf("got %+v, notes %q", open.Month.Tasks, open.Notes)
	}
}

func TestAPlanSaysWhatItDoesNotKnow(t *testing.T) {
	unpriced := jsonPlanIn(t, written(t, `
providers: {custom: [{id: own, endpoints: [http://localhost:1/v1], models: [{id: nobody-prices-me}]}]}
`))
	if notes := strings.Join(unpriced.Notes, "\n"); !strings.Contains(notes, "the price of nobody-prices-me at own is not known") {
		t.Errorf("notes %q", notes)
	}
	small := jsonPlanIn(t, written(t, `
providers: {custom: [{id: own, endpoints: [http://localhost:1/v1], models: [{id: tiny, context: 2000, price: {input: 1, output: 1}}]}]}
`))
	if notes := strings.Join(small.Notes, "\n"); !strings.Contains(notes, "T2+ has no model") || small.Tiers[2].Model != "" || small.Tiers[0].Model != "tiny" {
		t.Errorf("notes %q, tiers %+v", notes, small.Tiers)
	}
}

func TestAPlanRefusesWhatItCannotRead(t *testing.T) {
	minimal := fixtureDir(t, "minimal") // before the working directory changes
	for _, row := range [][]string{{"--mix", "wild"}, {"--ticks", "0"}, {"--ticks", "1000000"}} {
		if out, err := planIn(t, minimal, row...); err == nil || !strings.Contains(err.Error(), row[0]) {
			t.Errorf("%v: %v %s", row, err, out)
		}
	}
}
