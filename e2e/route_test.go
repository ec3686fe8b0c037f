package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// dryRun is what `bardo route --json` prints.
type dryRun struct {
	Order []struct {
		Provider, Model string
		Features        []string
		Degraded        []string
		Cost            float64 `json:"estimated_cost_usd"`
	}
	Refused   []struct{ Provider, Model, Reason string }
	Pipeline  string
	Reasoning reasoned
	Error     string
}

// reasoned is how an explanation says that an answer is thought about.
type reasoned struct {
	Depth                string
	Visible, Interleaved bool
}

func route(t *testing.T, g *gateway.Gateway, args ...string) (r dryRun) {
	t.Helper()
	out := g.Bardo(t, append([]string{"route", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("route printed %q: %v", out, err)
	}
	return r
}

func (r dryRun) providers() string {
	var ids []string
	for _, p := range r.Order {
		ids = append(ids, p.Provider)
	}
	return strings.Join(ids, " ")
}

// TestADryRunSaysWhatTheGatewayWouldDo: its order is the one that requests take, also after a provider failed and after
// an operator disabled one.
func TestADryRunSaysWhatTheGatewayWouldDo(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: models("m", "")}, {ID: "second", Fake: second, Format: "anthropic", Models: models("m", "")},
	}})
	answeredBy := func() string {
		return g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Header.Get("X-Bardo-Provider")
	}
	r := route(t, g, "--model", "m", "--input-tokens", "1000", "--max-tokens", "1000")
	if r.providers() != "first second" || r.Order[0].Model != "m" || r.Order[0].Cost != 0.003 || r.Pipeline == "" || len(r.Refused) != 0 {
		t.Errorf("got %+v", r)
	}
	if by := answeredBy(); by != "first" {
		t.Errorf("answered by %s", by)
	}
	if n := len(first.Generations()) + len(second.Generations()); n != 1 {
		t.Errorf("%d calls for one request: a dry run sends nothing", n)
	}

	first.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	eventually(t, "the first provider's fall", func() bool {
		answeredBy()
		return route(t, g, "--model", "m").providers() == "second first"
	})
	if by := answeredBy(); by != "second" {
		t.Errorf("answered by %s", by)
	}
	if out := g.Bardo(t, "route", "--model", "m"); !strings.Contains(out, "failures in a row") {
		t.Errorf("no reason for the order in\n%s", out)
	}

	g.Bardo(t, "providers", "disable", "second")
	r = route(t, g, "--model", "m")
	if r.providers() != "first" || len(r.Refused) != 1 || r.Refused[0].Provider != "second" || !strings.Contains(r.Refused[0].Reason, "disabled") {
		t.Errorf("got %+v", r)
	}
	none := ask{dialect: fake.OpenAI, model: "nn"}
	mustFail(t, none, g.Do(t, none.call()), http.StatusNotFound, "model_not_found")
	refused := g.Try(t, "route", "--model", "nn")
	if refused.Code != 1 || !strings.Contains(refused.Stderr, `model_not_found: the model "nn" does not exist`) {
		t.Errorf("exit %d: %s", refused.Code, refused.Stderr)
	}
}
