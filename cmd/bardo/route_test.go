package main

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// ConfigOf parses a configuration without an environment.
func ConfigOf(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse("config.yaml", []byte(text), func(string) (string, bool) { return "", false }, providerKinds()...)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	return cfg
}

const threeServers = `
providers:
  custom:
    - {id: a, endpoints: [http://localhost:1/v1], models: [{id: m}]}
    - {id: b, endpoints: [http://localhost:2/v1], models: [{id: m}]}
    - {id: c, endpoints: [http://localhost:3/v1], models: [{id: m}]}
`

func TestADryRunFollowsHealth(t *testing.T) {
	for _, row := range []struct {
		about                 string
		states                []control.Provider
		order, refused, error string
	}{
		{"without a gateway, the configured order", nil, "a b c", "", ""},
		{
			"a provider that is down goes last",
			[]control.Provider{{Provider: "a", State: "down", Order: 3}, {Provider: "b", State: "healthy", Order: 1}, {Provider: "c", State: "unknown", Order: 2}},
			"b c a", "", "",
		},
		{
			"one that an operator disabled is not asked",
			[]control.Provider{{Provider: "a", Order: 1}, {Provider: "b", State: "disabled"}, {Provider: "c", Order: 2}},
			"a c", "b m: an operator disabled it", "",
		},
		{
			"all are disabled",
			[]control.Provider{{Provider: "a"}, {Provider: "b"}, {Provider: "c"}},
			"", "a m: an operator disabled it; b m: an operator disabled it; c m: an operator disabled it",
			"no_provider: every provider of this model is disabled",
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			dry, err := (&routeAsk{Model: "m"}).dry()
			if err != nil {
				t.Fatal(err)
			}
			e, err := explain(ConfigOf(t, threeServers), nil, row.states, dry)
			if err != nil {
				t.Fatal(err)
			}
			var order, refused []string
			for _, p := range e.Order {
				order = append(order, string(p.Provider))
			}
			for _, no := range e.Refused {
				refused = append(refused, string(no.Provider)+" "+no.Model+": "+no.Reason)
			}
			if got := strings.Join(order, " "); got != row.order {
				t.Errorf("order %q, want %q", got, row.order)
			}
			if got := strings.Join(refused, "; "); got != row.refused {
				t.Errorf("refused %q, want %q", got, row.refused)
			}
			if e.Error != row.error {
				t.Errorf("error %q, want %q", e.Error, row.error)
			}
		})
	}
}

func TestADryRunsRequestSurvivesTheSocket(t *testing.T) {
	ask := routeAsk{
		Model: "a/b c&d", Input: 7, Output: 9, Tools: true, Schema: true, Effort: "high", Tier: "pro",
		Hints: header.List{{Name: "x-bardo-subsystem", Value: "risk"}, {Name: "x-bardo-require", Value: "tools,vision"}, {Name: "x-bardo-require", Value: "citations"}},
	}
	q, err := url.ParseQuery(ask.query().Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := askOf(q); err != nil || !reflect.DeepEqual(got, ask) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "input=1&output=x"} {
		q, err := url.ParseQuery(bad)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := askOf(q); err == nil {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}

// Each hint has a flag, and each flag is a hint.
func TestD03EachHintHasAFlag(t *testing.T) {
	c := routeCommand()
	for _, key := range hint.Keys() {
		if name := strings.ReplaceAll(key, "_", "-"); c.Flags().Lookup(name) == nil {
			t.Errorf("no flag for %s", key)
		}
	}
	if len(hintFlags) != len(hint.Keys()) {
		t.Errorf("%d flags for %d hints", len(hintFlags), len(hint.Keys()))
	}
}

// The expected tables, as bardo route prints them: each with its own configuration and catalog (D-13).
func TestD13WhatBardoRoutePrints(t *testing.T) {
	fixtures, err := filepath.Abs(filepath.Join("..", "..", "policy", "resolve", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	goldens, err := filepath.Abs(filepath.Join("testdata", "route"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("BARDO_HOME", t.TempDir())
	t.Setenv("BARDO_INFERENCE_SPREAD_PCT", "20")
	for _, f := range []struct {
		name       string
		subsystems []string
	}{
		{"typical", []string{"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "daimon_complex", "curator", "playbook", "operator", "death", "session_compact"}},
		{"minimal", []string{"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "curator", "playbook", "operator", "death"}},
		{"full", []string{"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "curator", "context", "playbook", "operator", "death", "session"}},
		{"ladders", []string{"dream", "risk", "context", "death"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Chdir(filepath.Join(fixtures, f.name)) // where its catalog is
			var out strings.Builder
			for _, s := range f.subsystems {
				args := []string{
					"route", "-c", "config.yaml", "--subsystem", s, "--golem-id", "g1",
					"--input-tokens", "4000", "--max-tokens", "2000",
				}
				if s == "dream" || s == "death" {
					args = append(args, "--diem-available")
				}
				out.WriteString("$ bardo route --subsystem " + s + "\n")
				c := root()
				c.SetArgs(args)
				c.SetOut(&out)
				if err := c.Execute(); err != nil {
					out.WriteString("! " + err.Error() + "\n")
				}
				out.WriteByte('\n')
			}
			path := filepath.Join(goldens, f.name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("%s:\n--- got\n%s--- want\n%s", path, out.String(), want)
			}
		})
	}
}

func TestADryRunWithoutGatewayKnowsItsProfile(t *testing.T) {
	dry, err := (&routeAsk{Hints: header.List{{Name: "x-bardo-subsystem", Value: "risk"}}}).dry()
	if err != nil {
		t.Fatal(err)
	}
	e, err := explain(ConfigOf(t, threeServers), nil, nil, dry)
	if err != nil {
		t.Fatal(err)
	}
	if e.Profile.Effort != policy.EffortMax || e.Pipeline != "standard" {
		t.Errorf("got %+v, %s", e.Profile, e.Pipeline)
	}
}

func TestR10ThePlanOfAKeyKeepsProvidersOut(t *testing.T) {
	cfg := ConfigOf(t, threeServers+"billing: {tiers: {free: {exclude: [a, b]}, pro: {exclude: [a], spread_pct: 5}}}\n")
	for tier, want := range map[string]string{"free": "c", "pro": "b c", "golem": "a b c", "": "a b c"} {
		dry, err := (&routeAsk{Tier: tier, Model: "m"}).dry()
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain(cfg, nil, nil, dry)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, r := range e.Order {
			order = append(order, string(r.Provider))
		}
		if slices.Sort(order); strings.Join(order, " ") != want {
			t.Errorf("%q: asked %s, want %s", tier, order, want)
		}
	}
}

// TestD51ADryRunHasTheSpreadOfTheKeysPlan, as the gateway that serves the request has.
func TestD51ADryRunHasTheSpreadOfTheKeysPlan(t *testing.T) {
	cfg := ConfigOf(t, threeServers+"billing: {tiers: {free: {}, pro: {spread_pct: 5}}}\n")
	for tier, pct := range map[string]int{"free": 25, "pro": 5, "golem": 10, "": 0} {
		dry, err := (&routeAsk{Tier: tier, Model: "m"}).dry()
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain(cfg, nil, nil, dry)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range e.Order {
			if want := policy.Pico(r.ProviderCost).Charge(pct); want == 0 || policy.Micro(r.Cost) != want {
				t.Errorf("%q at %s: costs %d, want %d", tier, r.Provider, r.Cost, want)
			}
		}
	}
}
