package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// afterTraffic are the metrics after traffic of each kind.
func afterTraffic(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	m := New(Build{})
	m.SetModels([]string{"m"})
	m.RequestDone(&Request{Provider: "p", Model: "m", Status: 200, Streamed: true, Duration: time.Second, FirstToken: time.Millisecond, Overhead: 1, Tokens: Tokens{Input: 3, Output: 2}, ProviderCost: 1, Charged: 1})
	m.AttemptDone(&Attempt{Provider: "p", Model: "m", Outcome: Failed, Duration: time.Second, FailedOver: true})
	m.LayerDone("l3", time.Millisecond)
	m.LayerCalled("l4")
	m.LayerSaved("l4", 1, 1)
	m.LedgerCommitted(time.Millisecond, 1)
	m.UsageCapped("p")
	m.Hedged("won")
	m.RuleDecided("firewall", "r", "refused", "denied", false)
	m.ProviderHealth("p", true)
	m.CacheLookup(CacheHash)
	m.WatchHolds(func() (int, int64) { return 1, 1 })
	m.WatchCache(func() (int64, int64) { return 1, 1 })
	m.Exports().Sent(1, nil)
	all, err := m.Gatherer(nil).Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestB06PrometheusFindsNothingWrongWithTheMetrics(t *testing.T) {
	all := afterTraffic(t)
	if len(all) < 40 {
		t.Errorf("%d metrics", len(all))
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestB06TheBoardShowsMetricsThatExist: each name of docs/grafana/bardo.json is one of the gateway's.
func TestB06TheBoardShowsMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile("../../docs/grafana/bardo.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	known := map[string]dto.MetricType{}
	for _, f := range afterTraffic(t) {
		known[f.GetName()] = f.GetType()
	}
	named := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, name := range boardMetric.FindAllString(target.Expr, -1) {
				base, histogram := strings.CutSuffix(name, "_bucket")
				if kind, ok := known[base]; !ok || histogram != (kind == dto.MetricType_HISTOGRAM) {
					t.Errorf("%s: there is no %s", p.Title, name)
				}
				named++
			}
		}
	}
	if named < 15 {
		t.Errorf("the board names %d metrics", named)
	}
}

// boardMetric is a metric's name in an expression: labels of the conventions have another ending.
var boardMetric = regexp.MustCompile(`\b(bardo_[a-z_]+|gen_ai_(?:client|server)_[a-z_]+)`)
