package catalog

import (
	"maps"
	"reflect"
	"slices"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// ChangeKind is the kind of a change to a model at a provider.
type ChangeKind string

// The kinds of change.
const (
	Appeared     ChangeKind = "model_appeared"
	Vanished     ChangeKind = "model_vanished"
	PriceChanged ChangeKind = "price_changed"
)

// Change is a change to one model at one provider.
type Change struct {
	Kind     ChangeKind
	Provider policy.ProviderID
	Model    policy.ModelID
	Old, New policy.Prices // of a changed price
}

// Diff returns the changes in providers' own lists, in the order of providers' names and of the new lists, removed models last. A provider's first
// list is no change, because there is nothing to compare it with.
func Diff(before, after *Catalog) []Change {
	var out []Change
	for _, p := range slices.Sorted(maps.Keys(after.lists)) {
		if was := before.lists[p]; was != nil {
			out = append(out, differences(p, before, after)...)
		}
	}
	return out
}

func differences(p policy.ProviderID, before, after *Catalog) (out []Change) {
	was, is := before.lists[p], after.lists[p]
	for _, m := range is.models {
		if !was.has(m.UpstreamID) {
			out = append(out, Change{Kind: Appeared, Provider: p, Model: policy.ModelID(m.ID), New: after.priceAt(p, m)})
			continue
		}
		if o, n := before.priceAt(p, m), after.priceAt(p, m); !reflect.DeepEqual(o, n) {
			out = append(out, Change{Kind: PriceChanged, Provider: p, Model: policy.ModelID(m.ID), Old: o, New: n})
		}
	}
	for _, m := range was.models {
		if !is.has(m.UpstreamID) {
			out = append(out, Change{Kind: Vanished, Provider: p, Model: policy.ModelID(m.ID), Old: before.priceAt(p, m)})
		}
	}
	return out
}

// priceAt returns the final price of a listed model.
func (c *Catalog) priceAt(p policy.ProviderID, m modelfile.Model) policy.Prices {
	return c.At(p, modelfile.Model{ID: m.ID, UpstreamID: m.UpstreamID}).Prices
}
