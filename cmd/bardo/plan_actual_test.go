package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// spent creates a ledger with two days of requests, and some of today, which are not counted.
func spent(t *testing.T, home string) {
	t.Helper()
	l, err := ledger.Open(t.Context(), filepath.Join(home, "bardo.db"), ledger.Options{Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	const dollar = policy.Pico(1_000_000_000_000)
	for id, c := range map[string]ledger.Charge{
		"t1":     {Subsystem: "heartbeat_t1", Agent: "g", Amount: policy.USD, ProviderCost: dollar, At: now.AddDate(0, 0, -1)},
		"alias":  {Subsystem: "social", Agent: "g", Amount: 3 * policy.USD, ProviderCost: 2 * dollar, At: now.AddDate(0, 0, -2), Savings: []policy.Saving{{Layer: "l4", Amount: policy.USD}}},
		"none":   {Agent: "g", Amount: 2 * policy.USD, ProviderCost: dollar, At: now.AddDate(0, 0, -1)},
		"others": {Subsystem: "risk", Agent: "h", Amount: policy.USD, ProviderCost: dollar, At: now.AddDate(0, 0, -1)},
		"today":  {Subsystem: "risk", Agent: "g", Amount: policy.USD, ProviderCost: dollar, At: now},
		"old":    {Subsystem: "risk", Agent: "g", Amount: policy.USD, ProviderCost: dollar, At: now.AddDate(0, 0, -3)},
	} {
		c.RequestID = id
		if err := l.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// comparison is the comparison as decoded from --json.
type comparison struct {
	Days      int
	Mix       string
	Rows      []comparedRow `json:"subsystems"`
	Planned   float64       `json:"planned_per_day_usd"`
	Actual    float64       `json:"actual_per_day_usd"`
	Charged   float64       `json:"charged_per_day_usd"`
	FullPrice float64       `json:"full_price_per_day_usd"`
}

type comparedRow struct {
	Subsystem    string
	PlannedCalls float64 `json:"planned_calls_per_day"`
	Planned      float64 `json:"planned_per_day_usd"`
	ActualCalls  float64 `json:"actual_calls_per_day"`
	Actual       float64 `json:"actual_per_day_usd"`
}

func TestAPlanIsComparedWithTheLedger(t *testing.T) {
	home := t.TempDir()
	spent(t, home)
	t.Chdir(fixtureDir(t, "typical"))
	t.Setenv("BARDO_HOME", home)
	plan := func(args ...string) (string, error) {
		t.Helper()
		var out strings.Builder
		c := root()
		c.SetArgs(append([]string{"plan", "-c", "config.yaml"}, args...))
		c.SetOut(&out)
		err := c.Execute()
		return out.String(), err
	}
	text, err := plan("--actual", "2", "--golem", "g", "--json")
	var p struct{ Actual *comparison }
	if err != nil || json.Unmarshal([]byte(text), &p) != nil || p.Actual == nil {
		t.Fatal(text, err)
	}
	rows := map[string]comparedRow{}
	var planned, actual float64
	for _, r := range p.Actual.Rows {
		rows[r.Subsystem] = r
		planned += r.Planned
		actual += r.Actual
	}
	if r := rows["heartbeat_t1"]; r.ActualCalls != 1 || r.Actual != 1.5 || r.PlannedCalls != 15 || r.Planned == 0 {
		t.Errorf("%+v", r)
	}
	if r := rows[""]; r.ActualCalls != 0.5 || r.Actual != 0.5 || r.Planned != 0 {
		t.Errorf("%+v", r)
	}
	if r := rows["risk"]; r.ActualCalls != 0 || r.Actual != 0 || r.Planned == 0 {
		t.Errorf("what is of today, of before or of another agent counts: %+v", r)
	}
	if a := p.Actual; a.Days != 2 || a.Mix != "normal" || math.Abs(a.Planned-planned) > 1e-9 || a.Actual != actual || a.Charged != 3 || a.FullPrice != 3.5 {
		t.Errorf("%+v", a)
	}
	if text, err = plan("--actual", "2", "--mix", "calm"); err != nil || !strings.Contains(text, "An average of 2 days, beside a day of the plan (calm;") || !strings.Contains(text, "not planned") {
		t.Error(text, err)
	}
	for _, bad := range [][]string{{"--golem", "g"}, {"--actual", "-1"}, {"--actual", "400"}} {
		if text, err := plan(bad...); err == nil {
			t.Errorf("%v: %s", bad, text)
		}
	}
}
