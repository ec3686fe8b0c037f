package route

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// configOf parses a configuration without an environment.
func configOf(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse("config.yaml", []byte(text), func(string) (string, bool) { return "", false }, custom.Adapter{}.Kind())
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	return cfg
}

var adapters = []provider.Described{custom.Adapter{}}

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
			dry, err := (&request{Model: "m"}).dry()
			if err != nil {
				t.Fatal(err)
			}
			e, err := explain(adapters, nil, configOf(t, threeServers), nil, row.states, dry)
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
	ask := request{
		Model: "a/b c&d", Input: 7, Output: 9, Tools: true, Schema: true, Effort: "high", Tier: "pro", Broke: true,
		Hints: header.List{{Name: "x-bardo-subsystem", Value: "risk"}, {Name: "x-bardo-require", Value: "tools,vision"}, {Name: "x-bardo-require", Value: "citations"}},
	}
	q, err := url.ParseQuery(ask.query().Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parseQuery(q); err != nil || !reflect.DeepEqual(got, ask) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "input=1&output=x"} {
		q, err := url.ParseQuery(bad)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseQuery(q); err == nil {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}

// Each hint has a flag, and each flag is a hint.
func TestD03EachHintHasAFlag(t *testing.T) {
	c := Command(adapters, func(*config.Config) *pipeline.Pipeline { return nil })
	for _, key := range hint.Keys() {
		if name := strings.ReplaceAll(key, "_", "-"); c.Flags().Lookup(name) == nil {
			t.Errorf("no flag for %s", key)
		}
	}
	if len(hintFlags) != len(hint.Keys()) {
		t.Errorf("%d flags for %d hints", len(hintFlags), len(hint.Keys()))
	}
}

func TestADryRunWithoutGatewayKnowsItsProfile(t *testing.T) {
	dry, err := (&request{Hints: header.List{{Name: "x-bardo-subsystem", Value: "risk"}}}).dry()
	if err != nil {
		t.Fatal(err)
	}
	e, err := explain(adapters, nil, configOf(t, threeServers), nil, nil, dry)
	if err != nil {
		t.Fatal(err)
	}
	if e.Profile.Effort != policy.EffortMax || e.Pipeline != "standard" {
		t.Errorf("got %+v, %s", e.Profile, e.Pipeline)
	}
}

func TestR10ThePlanOfAKeyKeepsProvidersOut(t *testing.T) {
	cfg := configOf(t, threeServers+"billing: {tiers: {free: {exclude: [a, b]}, pro: {exclude: [a], spread_pct: 5}}}\n")
	for tier, want := range map[string]string{"free": "c", "pro": "b c", "golem": "a b c", "": "a b c"} {
		dry, err := (&request{Tier: tier, Model: "m"}).dry()
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain(adapters, nil, cfg, nil, nil, dry)
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

// TestD51ADryRunHasTheSpreadOfTheKeysPlan, like the gateway.
func TestD51ADryRunHasTheSpreadOfTheKeysPlan(t *testing.T) {
	cfg := configOf(t, threeServers+"billing: {tiers: {free: {}, pro: {spread_pct: 5}}}\n")
	for tier, pct := range map[string]int{"free": 25, "pro": 5, "golem": 10, "": 0} {
		dry, err := (&request{Tier: tier, Model: "m"}).dry()
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain(adapters, nil, cfg, nil, nil, dry)
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

// TestB20ADryRunShowsTheFloor: only free models if the balance is empty and the operator has configured that, but never for critical requests.
func TestB20ADryRunShowsTheFloor(t *testing.T) {
	const models = `
providers:
  custom: [{id: a, endpoints: [http://localhost:1/v1], models: [{id: m, price: {input: 1, output: 2}}, {id: nothing, price: {input: 0, output: 0}}]}]
billing: {when_empty: %s}
`
	for _, row := range []struct {
		when, model, subsystem string
		broke                  bool
		want                   string
	}{
		{"free", "m", "", true, "nothing, not m: the balance is empty"},
		{"free", "", "", true, "nothing"}, // it is chosen anyway
		{"free", "", "social", true, "nothing"},
		{"free", "nothing", "", true, "nothing"},
		{"free", "m", "risk", true, "m"},
		{"free", "m", "", false, "m"},
		{"refuse", "m", "", true, "m"},
	} {
		ask := request{Model: row.model, Input: 10, Broke: row.broke}
		if row.subsystem != "" {
			ask.Hints = header.List{{Name: "x-bardo-subsystem", Value: row.subsystem}}
		}
		dry, err := ask.dry()
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain(adapters, nil, configOf(t, fmt.Sprintf(models, row.when)), nil, nil, dry)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Error
		if len(e.Order) > 0 {
			got = string(e.Order[0].Model)
		}
		if e.Floor != nil {
			got += ", not " + e.Floor.Asked + ": " + e.Floor.Reason
			if !strings.Contains(e.Text(), "free models alone, instead of "+e.Floor.Asked) || !strings.Contains(string(e.JSON()), `"floor"`) {
				t.Errorf("%s", e.Text())
			}
		}
		if got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}

// TestP04ADryRunChecksWhatTiersAllow: with or without a gateway, a request is refused that would be refused for its content.
func TestP04ADryRunChecksWhatTiersAllow(t *testing.T) {
	for _, row := range []struct {
		about   string
		ask     request
		config  string
		refused string
	}{
		{"no schema", request{}, "", "structured_output_required"},
		{"a schema", request{Schema: true}, "", ""},
		{"images", request{Schema: true, Images: true}, "", "file_upload_allowed"},
		{"tools", request{Schema: true, Tools: true}, "", ""},
		{"a search", request{Schema: true, Hints: header.List{{Name: "x-bardo-web-search", Value: "true"}}}, "", "web_search_allowed"},
		{"the subsystem's schema", request{Hints: header.List{{Name: "x-bardo-subsystem", Value: "curator"}}}, "", ""},
		{"the subsystem's schema, switched off", request{Hints: header.List{{Name: "x-bardo-subsystem", Value: "curator"}}}, "inference: {structured_outputs: {enabled: false}}\n", "structured_output_required"},
		{"no tier in force", request{}, "inference: {provider_mode: bardo}\n", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			row.ask.Model, row.ask.Hints = "m", append(row.ask.Hints, header.Field{Name: "x-bardo-task-class", Value: "trade"})
			dry, err := row.ask.dry()
			if err != nil {
				t.Fatal(err)
			}
			e, err := explain(adapters, nil, configOf(t, threeServers+row.config), nil, nil, dry)
			if err != nil {
				t.Fatal(err)
			}
			if row.refused == "" {
				if e.Error != "" || len(e.Order) == 0 {
					t.Errorf("refused: %s", e.Error)
				}
				return
			}
			if !strings.HasPrefix(e.Error, "invalid_request: privacy tier tee (task class trade): "+row.refused) || len(e.Order) > 0 || !strings.Contains(e.Text(), "; the request breaks "+row.refused) {
				t.Errorf("%q for\n%s", e.Error, e.Text())
			}
		})
	}
}

// TestAProviderThatIsTriedAgainSaysSo: it precedes working providers, and its state is that of `bardo providers`.
func TestAProviderThatIsTriedAgainSaysSo(t *testing.T) {
	states := []control.Provider{
		{Provider: "a", State: "credential_refused", Reason: "401: no", Order: 3}, {Provider: "b", State: "healthy", Order: 1}, {Provider: "c", State: "down", Reason: "no connection", Order: 2},
	}
	e := dryrun.Result{Order: []dryrun.Candidate{{Provider: "a", State: "down", Why: "why"}, {Provider: "b", State: "healthy", Why: "why"}, {Provider: "c", State: "down", Why: "why"}}}
	addReasons(&e, states)
	for i, want := range []dryrun.Candidate{
		{Provider: "a", State: "credential_refused", Why: "why; 401: no; it is tried again"}, {Provider: "b", State: "healthy", Why: "why"}, {Provider: "c", State: "down", Why: "why; no connection"},
	} {
		if !reflect.DeepEqual(e.Order[i], want) {
			t.Errorf("%+v, want %+v", e.Order[i], want)
		}
	}
}
