package venice

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{Name: a.Name(), Traits: kind.Traits{
		Lacks: append(policy.VendorFeatures(), policy.Citations, policy.Compaction),
		First: kind.ForPrivacy,
		Rank:  3,
	}}
}
