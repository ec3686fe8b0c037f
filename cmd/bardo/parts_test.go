package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/models"
)

func TestEveryAdapterConforms(t *testing.T) {
	var all []provider.Adapter
	for _, a := range parts.Adapters() {
		if a.Kind().Name != a.Name() {
			t.Errorf("the adapter %q describes the kind %q", a.Name(), a.Kind().Name)
		}
		all = append(all, a)
	}
	providertest.Run(t, all...)
}

// TestEveryAdapterHasGoldenRequests in its package, whose own test compares them; the demo provider answers without a request.
func TestEveryAdapterHasGoldenRequests(t *testing.T) {
	for _, a := range parts.Adapters() {
		name := a.Name()
		if name == "demo" {
			continue
		}
		found, err := filepath.Glob("../../extproc/provider/*/testdata/" + name + "*.golden")
		if own, err := filepath.Glob("../../extproc/provider/" + name + "/testdata/*.golden"); err == nil {
			found = append(found, own...)
		}
		if err != nil || len(found) == 0 {
			t.Errorf("no golden requests of %s, %v: its package's test needs its name", name, err)
		}
	}
}

// TestD30EachLayerRunsInItsProfiles: each layer declares the profiles in the table.
func TestD30EachLayerRunsInItsProfiles(t *testing.T) {
	table := map[string][]string{
		"l1": {"fast", "standard"}, "l2": {"standard"}, "l3": {"minimal", "fast", "standard"}, "l4": {"standard"}, "l5": {"standard"},
		"l6": {"fast", "standard"}, "l7": {"minimal", "fast", "standard"}, "defi": {"standard"}, "l8": {"minimal", "fast", "standard"}, // flags are for fewer: TestD30WhoseRequestsAreJudged
		"firewall": {"minimal", "fast", "standard"}, "guardrail": {"minimal", "fast", "standard"}, "retrieval": {"standard"}, "promptlog": {"minimal", "fast", "standard"},
	}
	for _, l := range parts.Layers()(&config.Config{}, &run.Services{Embedder: models.None, Classifier: models.None}) {
		want, ok := table[l.Name()]
		if got := slices.Sorted(slices.Values(l.Profiles())); !ok || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("layer %q runs in %v, want %v", l.Name(), got, want)
		}
	}
}

// TestEveryProviderIsDocumented: docs/providers.md names the variables of each kind with a section, or the section itself.
func TestEveryProviderIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range parts.Kinds() {
		if k.Section == kind.NoSection {
			continue
		}
		name := "## " + k.Name
		if len(k.Variables) > 0 {
			name = k.Variables[0]
		}
		if !strings.Contains(strings.ToLower(string(page)), strings.ToLower(name)) {
			t.Errorf("docs/providers.md does not name %s, of %s", name, k.Name)
		}
	}
}

// TestC15TheDocumentHasTheTerms: docs/context.md has a row for each kind of provider with known prompt cache terms, and for each of its families.
func TestC15TheDocumentHasTheTerms(t *testing.T) {
	page, err := os.ReadFile("../../docs/context.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, line)
		}
	}
	has := func(name string, want ...string) {
		t.Helper()
		if !slices.ContainsFunc(rows, func(row string) bool {
			return strings.Contains(strings.ToLower(row), name) && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(row, w) })
		}) {
			t.Errorf("docs/context.md has no row of %s with %q", name, want)
		}
	}
	for _, k := range parts.Kinds() {
		if k.PromptCache.OfVendor {
			has(k.Name, "those of the model's vendor")
		}
		if k.PromptCache.Terms != (kind.CacheTerms{}) {
			has(k.Name, termCells(k.PromptCache.Terms)...)
		}
		for family, terms := range k.PromptCache.Families {
			has(k.Name+", "+family, termCells(terms)...)
		}
	}
}

// termCells formats the terms of a prompt cache as in the document.
func termCells(c kind.CacheTerms) []string {
	discount, premium, kept, cached := fmt.Sprintf("| %d %% |", c.MaxDiscount), "| none |", fmt.Sprintf("| %.0f min |", c.MaxTTL.Minutes()), "| every prefix |"
	if c.MinDiscount < c.MaxDiscount {
		discount = fmt.Sprintf("| %d–%d %% |", c.MinDiscount, c.MaxDiscount)
	}
	if c.WritePremium > 0 {
		premium = fmt.Sprintf("| %d %% |", c.WritePremium)
	}
	if c.MinTTL < c.MaxTTL {
		kept = fmt.Sprintf("| %.0f–%.0f min |", c.MinTTL.Minutes(), c.MaxTTL.Minutes())
	}
	if c.Explicit {
		cached = "| what a request marks |"
	}
	return []string{discount, premium, fmt.Sprintf("| %d,%03d |", c.MinTokens/1000, c.MinTokens%1000), kept, cached}
}

// TestTheDocumentShowsTheEndpoints: docs/providers.md lists the endpoints of each kind of provider besides those for conversations, and its adapter can call
// them.
func TestTheDocumentShowsTheEndpoints(t *testing.T) {
	const document = "../../docs/providers.md"
	names := make(map[kind.Endpoint][]string)
	for _, a := range parts.Adapters() {
		for _, e := range a.Kind().Endpoints {
			names[e] = append(names[e], a.Name())
			relay, ok := a.(provider.Relay)
			if !ok {
				t.Errorf("%s cannot call %s", a.Name(), e)
				continue
			}
			call := relay.Relay(e, "m", provider.Endpoint{BasePath: "/base/v1", Key: secret.New("k")})
			if call == nil || !strings.HasPrefix(call.Path, "/base/v1/") || !strings.Contains(call.Path, string(e)) || len(call.Header) == 0 {
				t.Errorf("%s calls %s as %+v", a.Name(), e, call)
			}
		}
	}
	table := "| endpoint | providers |\n|---|---|\n"
	for _, e := range kind.Endpoints() {
		table += "| `/v1" + string(e) + "` | " + strings.Join(names[e], ", ") + " |\n"
	}
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	got := between(t, string(page), "endpoints", table)
	switch {
	case got == string(page):
	case *update:
		if err := os.WriteFile(document, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the kinds of providers say: run `make golden`", document)
	}
}

func TestEveryDialectIsListedUnderItsName(t *testing.T) {
	for name, d := range parts.Dialects() {
		if d.Name() != name {
			t.Errorf("the dialect %q calls itself %q", name, d.Name())
		}
	}
}

func TestEveryKindHasAKnownDialectOfReasoning(t *testing.T) {
	for _, k := range parts.Kinds() {
		names := slices.Collect(maps.Values(k.Reasoning.Vendors))
		if k.Reasoning.Dialect != "" {
			names = append(names, k.Reasoning.Dialect)
		}
		for _, name := range names {
			if !slices.Contains(reasoning.Names(), name) {
				t.Errorf("%s: reasoning has no dialect %q", k.Name, name)
			}
		}
	}
}
