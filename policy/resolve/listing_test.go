package resolve_test

import (
	"testing"

	"bardo.money/gateway/policy"
)

// TestHasFreeSaysWhoReachesSomethingThatCostsNothing, by their plan.
func TestHasFreeSaysWhoReachesSomethingThatCostsNothing(t *testing.T) {
	const (
		paid    = "{id: a, format: openai, endpoints: [http://127.0.0.1:9/v1], models: [{id: m, price: {input: 1, output: 2}}]}"
		gratis  = "{id: b, format: openai, endpoints: [http://127.0.0.1:9/v1], models: [{id: f, price: {input: 0, output: 0}}]}"
		unknown = "{id: c, format: openai, endpoints: [http://127.0.0.1:9/v1]}"
	)
	for _, row := range []struct {
		name, providers string
		barred          []policy.ProviderID
		want            bool
	}{
		{"a model with a price", "custom: [" + paid + "]", nil, false},
		{"a server whose prices nobody knows", "custom: [" + unknown + "]", nil, false},
		{"a model without a price", "custom: [" + paid + ", " + gratis + "]", nil, true},
		{"one that the plan leaves out", "custom: [" + paid + ", " + gratis + "]", []policy.ProviderID{"b"}, false},
		{"a user's own key", "direct: {keys: [{provider: openai, api_key: k}]}", nil, true},
		{"users' own keys that the plan leaves out", "custom: [" + paid + "], direct: {keys: [{provider: openai, api_key: k}]}", []policy.ProviderID{"direct"}, false},
		{"staked credit", "venice: {api_key: k, diem_staked: true}", nil, true},
		{"the demo", "", nil, true},
	} {
		if got := made(t, "", "providers: {"+row.providers+"}").HasFree(row.barred); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}
