package resolve

import (
	"cmp"
	"slices"

	"bardo.money/gateway/policy"
)

// Verifiers lists the candidates for verifying first's answer, best first: models of another family, those at other providers before those at the same
// one. All constraints of the request apply: its needs, the caller's plan, and a provider that it names; so do the required features and the privacy
// that first has. Nothing is relaxed: the list is empty if no model fits.
func (r *Resolver) Verifiers(in *policy.Intent, first *policy.Resolution) []policy.Resolution {
	again := *in
	again.Model, again.First, again.ExcludedFamily, again.ServedBy = "", "", r.familyOf(first), policy.ServedBy{}
	if again.Provider == "" {
		again.Provider, _, _ = r.pinned(in.Model, "")
	}
	again.Quality = max(in.Quality, r.qualityOf(first))
	order := slices.DeleteFunc(r.Decide(&again).Order, func(to policy.Resolution) bool { return Weaker(in, first, &to) })
	slices.SortStableFunc(order, func(a, b policy.Resolution) int {
		return cmp.Compare(oneIf(a.Provider == first.Provider), oneIf(b.Provider == first.Provider))
	})
	return order
}

// Offers reports whether any provider has a feature, with any model.
func (r *Resolver) Offers(f policy.Feature) bool {
	return slices.ContainsFunc(r.options, func(s providerOptions) bool { return s.offers&setOf(f) != 0 })
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Weaker reports whether to keeps a request less private than first does, or lacks a required feature that first has.
func Weaker(in *policy.Intent, first, to *policy.Resolution) bool {
	wanted, has := setOf(in.Require...), setOf(to.Features...)
	private := in.Security != policy.SecurityStandard || in.PrivacyTier != policy.PrivacyUnset ||
		(wanted|setOf(in.Prefer...))&hasPrivate != 0
	if private && first.Private && !to.Private {
		return true
	}
	if in.PrivacyTier >= policy.PrivacyTEE {
		wanted |= hasEnclave
	}
	if in.PrivacyTier == policy.PrivacyEndToEnd {
		wanted |= hasSeal
	}
	return wanted&setOf(first.Features...)&^has != 0
}

// familyOf returns the family of first's model.
func (r *Resolver) familyOf(first *policy.Resolution) string {
	if e := r.offerOf(first); e != nil {
		return e.family()
	}
	return cmp.Or(first.Family, plain(first.Model))
}

// SameFamily reports whether two resolutions lead to models of one family.
func (r *Resolver) SameFamily(a, b *policy.Resolution) bool { return r.familyOf(a) == r.familyOf(b) }

// family returns the model's family; a model without a known family is its own.
func (e *entry) family() string { return cmp.Or(e.model.Family, e.name) }

// qualityOf returns the quality class of first's model.
func (r *Resolver) qualityOf(first *policy.Resolution) policy.Quality {
	if e := r.offerOf(first); e != nil {
		return e.option.quality
	}
	return policy.QualityUnset
}

// offerOf returns the listing of a resolution, nil for a model that its provider does not list.
func (r *Resolver) offerOf(first *policy.Resolution) *entry {
	return r.entryOf(first.Provider, string(first.Model))
}
