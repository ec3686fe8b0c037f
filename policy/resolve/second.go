package resolve

import (
	"cmp"
	"slices"

	"bardo.money/gateway/policy"
)

// Seconds lists who could give a second opinion on what first answers, best first: models of another family, those at other providers
// before those at the same one. What the request needs, whom its caller's plan leaves out, and the provider that it names, if it names
// one, hold for a second opinion, too; so does what first has of what is required, and of privacy. It is empty where nobody fits: nothing
// is relaxed for a second opinion.
func (r *Resolver) Seconds(in *policy.Intent, first *policy.Resolution) []policy.Resolution {
	again := *in
	again.Model, again.First, again.Besides, again.Kept = "", "", r.kinOf(first), policy.Kept{}
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

// Offers tells whether any provider has a feature, of whichever model.
func (r *Resolver) Offers(f policy.Feature) bool {
	return slices.ContainsFunc(r.seats, func(s providerOptions) bool { return s.offers&setOf(f) != 0 })
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Weaker tells whether a way to serve a request keeps it less private than first does, or lacks something required that first has.
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

// kinOf is what the models that answer as first does have in common.
func (r *Resolver) kinOf(first *policy.Resolution) string {
	if e := r.offerOf(first); e != nil {
		return e.kin()
	}
	return cmp.Or(first.Family, plain(first.Model))
}

// Alike tells whether two ways to serve a request lead to models of one family.
func (r *Resolver) Alike(a, b *policy.Resolution) bool { return r.kinOf(a) == r.kinOf(b) }

// kin is the model's family. One of no known family is a family by itself.
func (e *entry) kin() string { return cmp.Or(e.model.Family, e.name) }

// qualityOf is the class of the model that answers.
func (r *Resolver) qualityOf(first *policy.Resolution) policy.Quality {
	if e := r.offerOf(first); e != nil {
		return e.option.quality
	}
	return policy.QualityUnset
}

// offerOf is the listing behind a way to serve a request, nil for a model that its provider does not list.
func (r *Resolver) offerOf(first *policy.Resolution) *entry {
	return r.entryOf(first.Provider, string(first.Model))
}
