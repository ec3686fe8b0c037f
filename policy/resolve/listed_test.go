package resolve_test

import (
	"testing"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
	"bardo.money/gateway/policy/resolve"
)

// What a provider lists is what it serves, under every name of a model; before its list is known, it may serve anything.
func TestProvidersWithLists(t *testing.T) {
	models, err := catalog.Parse(catalog.FormOpenRouter, []byte(`[{"id":"anthropic/claude-opus-4.6"},{"id":"newcorp/nova-9"},{"id":"deepseek/deepseek-r1:free"}]`))
	if err != nil {
		t.Fatal(err)
	}
	market := kind.Provider{ID: "market", Catalog: catalog.FormOpenRouter, Any: true}
	broad := kind.Provider{ID: "broad", Traits: kinds[0].Traits, Catalog: catalog.FormBlockRun, Broad: true}
	c := catalog.New(catalogtest.Embedded())
	before := resolve.New(c, []kind.Provider{market, broad})
	after := resolve.New(c.With(map[policy.ProviderID]catalog.List{"market": {Format: catalog.FormOpenRouter, Models: models, Read: time.Now()}}), []kind.Provider{market})
	for _, row := range []struct {
		about string
		r     *resolve.Resolver
		model string
		want  string
	}{
		{"before: anything that nobody lists", before, "newcorp/nova-9", "market: newcorp/nova-9"},
		{"before: the catalog's models", before, "claude-opus-4.6", "broad: claude-opus-4-6"},
		{"K-89 the catalog's id", after, "claude-opus-4-6", "market: claude-opus-4-6 > anthropic/claude-opus-4.6"},
		{"K-89 another spelling", after, "claude-opus-4.6", "market: claude-opus-4-6 > anthropic/claude-opus-4.6"},
		{"K-89 the list's id", after, "anthropic/claude-opus-4.6", "market: claude-opus-4-6 > anthropic/claude-opus-4.6"},
		{"K-89 the list's id, with dashes", after, "anthropic/claude-opus-4-6", "market: claude-opus-4-6 > anthropic/claude-opus-4.6"},
		{"an id that the catalog does not know", after, "newcorp/nova-9", "market: newcorp/nova-9"},
		{"its last part", after, "nova-9", "market: newcorp/nova-9"},
		{"a variant of the list", after, "deepseek-r1:free", "market: deepseek-r1:free > deepseek/deepseek-r1:free"},
		{"a variant that is not listed", after, "claude-opus-4.6:nitro", "market: claude-opus-4.6:nitro > anthropic/claude-opus-4.6:nitro"},
		{"the same, forced", after, "market/anthropic/claude-opus-4.6:floor", "market: anthropic/claude-opus-4.6:floor"},
		{"not in the list", after, "newcorp/nova-8", ""},
		{"a variant of what is not in the list", after, "newcorp/nova-8:nitro", ""},
		{"no variant", after, "newcorp/nova-9:", ""},
	} {
		res, err := row.r.Resolve(row.model, "")
		if got := said(res); got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s: got %q, %v, want %q", row.about, got, err, row.want)
		}
	}
}
