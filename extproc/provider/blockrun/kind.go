package blockrun

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{Name: a.Name(), Traits: kind.Traits{
		Lacks: policy.VendorFeatures(),
		Rank:  -1,
	}}
}
