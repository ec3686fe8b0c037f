package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// TestPastRequestsAreShownByCommands: who was tried, why it failed, who answered, and what it cost, beside the gateway; and of a request that
// was refused too.
func TestPastRequestsAreShownByCommands(t *testing.T) {
	t.Parallel()
	first, second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	first.Behave(fake.Behaviour{Status: 503})
	g := gateway.Run(t, gateway.Options{Config: inOrder, Providers: []gateway.Provider{
		{ID: "broken", Fake: first, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 2}"}}},
		{ID: "works", Fake: second, Models: []gateway.Model{{ID: "m", Price: "{input: 3, output: 4}"}}},
	}})
	key := g.CreateKey(t, "--name", "k")
	c := ask{dialect: fake.OpenAI, model: "m"}.call()
	c.Key = key.Key
	got := g.Do(t, c)
	if got.Status != http.StatusOK {
		t.Fatalf("%d: %s", got.Status, got.Body)
	}
	id := got.Header.Get("X-Request-Id")
	shown := g.Bardo(t, "requests", "show", id)
	for _, want := range []string{`(?m)^key +` + key.ID + `$`, `(?m)^attempts +2$`, `(?m)^provider +works$`, `(?m)^broken +m +status_503 +the provider answered 503 +next_candidate `, `(?m)^works +m +ok`} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("requests show has no %s:\n%s", want, shown)
		}
	}
	var records []struct {
		RequestID string `json:"request_id"`
		Key       string `json:"key"`
	}
	polltest.Until(t, "the request in the list", func() bool {
		list := g.Bardo(t, "requests", "--provider", "broken", "--since", "1h", "--json")
		return json.Unmarshal([]byte(list), &records) == nil && len(records) > 0
	})
	if len(records) != 1 || records[0].RequestID != id || records[0].Key != key.ID {
		t.Errorf("the list has %+v", records)
	}
	c = ask{dialect: fake.OpenAI, model: "nobody-serves-it"}.call()
	c.Key = key.Key
	refused := g.Do(t, c).Header.Get("X-Request-Id")
	if shown := g.Bardo(t, "requests", "show", refused); !strings.Contains(shown, "model_not_found") {
		t.Errorf("a refused request is shown as\n%s", shown)
	}
	models := g.Bardo(t, "models")
	for _, want := range []string{`(?m)^m +broken .* 1\.00 +2\.00 `, `(?m)^m +works .* 3\.00 +4\.00 `} {
		if !regexp.MustCompile(want).MatchString(models) {
			t.Errorf("models has no %s:\n%s", want, models)
		}
	}
}
