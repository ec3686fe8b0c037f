package resolve_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

const twoVendors = `
providers:
  order: [one, two]
  custom:
    - {id: one, endpoints: [http://localhost:1/v1], models: [{id: one-small}, {id: one-middle}, {id: one-large}, {id: one-thinker}]}
    - {id: two, endpoints: [http://localhost:2/v1], models: [{id: two-small}, {id: two-large}]}
`

const theirModels = `
  - {id: one-small, family: a, context: 100000, price: {input: 0.1, output: 0.4, cached_input: 0.01}, capabilities: [tools], quality: low, reasoning: none}
  - {id: one-middle, family: a, context: 100000, price: {input: 1, output: 4, cached_input: 0.1}, capabilities: [tools], quality: medium, reasoning: none}
  - {id: one-large, family: a, context: 100000, price: {input: 5, output: 20, cached_input: 0.5}, capabilities: [tools], quality: maximum, reasoning: none}
  - {id: one-thinker, family: a, context: 100000, price: {input: 0.05, output: 0.1}, capabilities: [tools], quality: maximum, reasoning: auto, thinking: {control: always}}
  - {id: two-small, family: b, context: 100000, price: {input: 0.1, output: 0.39}, capabilities: [tools], quality: low, reasoning: none}
  - {id: two-large, family: b, context: 100000, price: {input: 4, output: 16}, capabilities: [tools], quality: maximum, reasoning: none}`

func askedFor(q policy.Quality, change func(*policy.Intent)) *policy.Intent {
	in := policy.Intent{Quality: q, CostSensitivity: 0.5, InputTokens: 2000, Expected: 300}
	if change != nil {
		change(&in)
	}
	return &in
}

// TestD80WhatIsChosen: quality up to the need and not more, cost on a logarithmic scale, the operator's order within a small band.
func TestD80WhatIsChosen(t *testing.T) {
	r := made(t, theirModels, twoVendors)
	reversed := made(t, theirModels, strings.Replace(twoVendors, "order: [one, two]", "order: [two, one]", 1))
	short := func(in *policy.Intent) { in.OutputTokens = 8 }
	kept := func(p policy.ProviderID, m policy.ModelID) func(*policy.Intent) {
		return func(in *policy.Intent) {
			in.ServedBy, in.OutputTokens = policy.ServedBy{Provider: p, Model: m, Tokens: 1500}, 500
		}
	}
	for _, row := range []struct {
		about string
		r     *resolve.Resolver
		in    *policy.Intent
		want  string
	}{
		{"an easy one, at the first of two that cost about the same", r, askedFor(policy.QualityLow, short), "one/one-small"},
		{"the owner prefers the other", reversed, askedFor(policy.QualityLow, short), "two/two-small"},
		{"what is needed and no more", r, askedFor(policy.QualityMedium, short), "one/one-middle"},
		{"a hard one, with room to think", r, askedFor(policy.QualityMaximum, nil), "one/one-thinker"},
		{"a hard one, without", r, askedFor(policy.QualityMaximum, short), "two/two-large"},
		{"a conversation stays", r, askedFor(policy.QualityLow, kept("two", "two-small")), "two/two-small"},
		{"also where it is expensive", r, askedFor(policy.QualityLow, kept("one", "one-large")), "one/one-large"},
		{"until it needs more", r, askedFor(policy.QualityMaximum, kept("two", "two-small")), "two/two-large"},
		{"a model that is gone keeps nothing", r, askedFor(policy.QualityLow, kept("two", "gone")), "one/one-small"},
	} {
		d := row.r.Explain(row.in)
		if d.Err != nil || string(d.Order[0].Provider)+"/"+string(d.Order[0].Model) != row.want {
			t.Errorf("%s: %s, %v; want %s", row.about, ways(d.Order), d.Err, row.want)
			continue
		}
		providers := map[policy.ProviderID]bool{}
		for i := range d.Order {
			providers[d.Order[i].Provider] = true
		}
		if len(d.Order) < 4 || len(providers) < 2 {
			t.Errorf("%s: at least four candidates over two providers, got %s", row.about, ways(d.Order))
		}
		thinks := slices.ContainsFunc(d.Order, func(to policy.Resolution) bool { return to.Model == "one-thinker" })
		if thinks && row.in.OutputTokens == 8 {
			t.Errorf("%s: no room to think, and %s", row.about, ways(d.Order))
		}
	}
	alone := made(t, theirModels, `
providers:
  custom: [{id: one, endpoints: [http://localhost:1/v1], models: [{id: one-thinker}]}]
`)
	if d := alone.Decide(askedFor(policy.QualityLow, short)); d.Err != nil {
		t.Errorf("where nobody else is, one that thinks serves: %v", d.Err)
	}
}

// TestD80AWarmCacheCountsAsPrice: the model that holds the conversation scores higher than it would without.
func TestD80AWarmCacheCountsAsPrice(t *testing.T) {
	r := made(t, theirModels, twoVendors)
	score := func(tokens int64) float64 {
		in := askedFor(policy.QualityLow, func(in *policy.Intent) {
			in.ServedBy = policy.ServedBy{Provider: "one", Model: "one-middle", Tokens: tokens}
		})
		return r.Decide(in).Order[0].Score
	}
	if cold, warm := score(0), score(1800); warm <= cold {
		t.Errorf("warm %v, cold %v", warm, cold)
	}
}
