package main

import (
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/internal/kind"
)

func TestEveryAdapterConforms(t *testing.T) {
	var all []provider.Adapter
	for _, a := range adapters() {
		if a.Kind().Name != a.Name() {
			t.Errorf("the adapter %q describes the kind %q", a.Name(), a.Kind().Name)
		}
		all = append(all, a)
	}
	providertest.Run(t, all...)
}

// TestEveryProviderIsDocumented: docs/providers.md names the variables of each kind that has a section, or the section itself.
func TestEveryProviderIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range providerKinds() {
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

func TestEveryDialectIsListedUnderItsName(t *testing.T) {
	for name, d := range dialects() {
		if d.Name() != name {
			t.Errorf("the dialect %q calls itself %q", name, d.Name())
		}
	}
}
