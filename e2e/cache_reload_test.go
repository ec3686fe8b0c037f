package e2e

import (
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestAStoredAnswerGoesWithItsModel: an operator who takes a provider away, or has a model mean another one, does not go on to serve
// what the old one said; not for providers that fail either.
func TestAStoredAnswerGoesWithItsModel(t *testing.T) {
	t.Parallel()
	first, second := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	served := func(f *fake.Server, model string) gateway.Options {
		id := "first"
		if f == second {
			id = "second"
		}
		return gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: id, Fake: f, Models: models("m", model)}}}
	}
	g := gateway.Run(t, served(first, "old"))
	a := ask{dialect: fake.OpenAI}.about("m", "what stays")
	for i, r := range []struct {
		change *gateway.Options
		want   string
	}{
		{nil, "miss"},
		{nil, "hash"},
		{new(served(first, "new")), "miss"},
		{nil, "hash"},
		{new(served(second, "new")), "miss"},
		{nil, "hash"},
	} {
		if r.change != nil {
			reload(t, g, *r.change)
		}
		if _, k := asked(t, g, a); k != r.want {
			t.Errorf("step %d: %s, want %s", i, k, r.want)
		}
	}
	reload(t, g, served(first, "new"))
	first.Behave(fake.Behaviour{Status: 500})
	if got := g.Do(t, a.call(fast)); got.Status != 502 {
		t.Errorf("%d, cache %q: %.200s", got.Status, got.Header.Get("X-Bardo-Cache"), got.Body)
	}
}
