package main

import (
	"maps"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/provider/providertest"
)

func TestEveryAdapterConforms(t *testing.T) {
	kinds := adapters()
	for kind, a := range kinds {
		if a.Name() != kind {
			t.Errorf("the adapter of kind %q calls itself %q", kind, a.Name())
		}
	}
	providertest.Run(t, slices.Collect(maps.Values(kinds))...)
}

func TestEveryDialectIsListedUnderItsName(t *testing.T) {
	for name, d := range dialects() {
		if d.Name() != name {
			t.Errorf("the dialect %q calls itself %q", name, d.Name())
		}
	}
}
