package main

import (
	"testing"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/providertest"
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

func TestEveryDialectIsListedUnderItsName(t *testing.T) {
	for name, d := range dialects() {
		if d.Name() != name {
			t.Errorf("the dialect %q calls itself %q", name, d.Name())
		}
	}
}
