package runtime_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// A price must be in the catalog: a service tier that is not a string (an object, a number) has none, although the default tier has.
func TestD87WhatCostsExtraNeedsAPrice(t *testing.T) {
	prices := policy.Prices{Known: true, Tiers: map[string]policy.Prices{"priority": {Known: true}}}
	searched := policy.Prices{Known: true, SearchKnown: true}
	for _, row := range []struct {
		about string
		extra provider.Extra
		to    policy.Resolution
		want  bool
	}{
		{"a tier with a price", provider.Extra{By: provider.PerTier, Value: "priority"}, policy.Resolution{Prices: prices}, true},
		{"a tier without", provider.Extra{By: provider.PerTier, Value: "scale"}, policy.Resolution{Prices: prices}, false},
		{"a tier that is no text", provider.Extra{By: provider.PerTier}, policy.Resolution{Prices: prices}, false},
		{"a search without a price", provider.Extra{By: provider.PerSearch}, policy.Resolution{Prices: prices}, false},
		{"a search with one", provider.Extra{By: provider.PerSearch}, policy.Resolution{Prices: searched}, true},
		{"a search that staked credit has a price for", provider.Extra{By: provider.PerSearch}, policy.Resolution{Prices: prices, Staked: &searched}, true},
		{"what nobody has a price for", provider.Extra{By: provider.Unpriced}, policy.Resolution{Prices: searched}, false},
		{"what costs its tokens alone", provider.Extra{By: provider.NoCharge}, policy.Resolution{}, true},
	} {
		if got := runtime.IsPriced(&row.extra, &row.to); got != row.want {
			t.Errorf("%s: %v, want %v", row.about, got, row.want)
		}
	}
}

// If no candidate of the client's own format is left, candidates of other formats are not called either: they would serve the request without the
// unpriced part.
func TestD87APartWithoutAPriceIsNotDroppedByAnotherFormat(t *testing.T) {
	rt := runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{
		"same": {Adapter: custom.Adapter{}}, "other": {Adapter: anthropic.Adapter{}}, "own": {Adapter: custom.Adapter{}, Direct: true},
	})}
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","background":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		about   string
		found   []policy.ProviderID
		left    int
		refused int
	}{
		{"the client's format, and another", []policy.ProviderID{"same", "other"}, 0, 1},
		{"a user's own key beside them", []policy.ProviderID{"same", "other", "own"}, 2, 1},
		{"another format alone", []policy.ProviderID{"other"}, 1, 0},
	} {
		var found []policy.Resolution
		for _, id := range row.found {
			found = append(found, policy.Resolution{Provider: id, Model: "m", Upstream: "m"})
		}
		left, refused := rt.Priced(req, found, func(id policy.ProviderID) bool { return rt.Provider(id).Direct })
		if len(left) != row.left || len(refused) != row.refused {
			t.Errorf("%s: %d are left and %d parts refused, want %d and %d", row.about, len(left), len(refused), row.left, row.refused)
		}
	}
}
