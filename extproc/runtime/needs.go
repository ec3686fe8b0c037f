package runtime

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/privacy"
	"bardo.money/gateway/policy/profile"
)

// Needs derives a request's intent from its hints, its facts and its caller. The subsystem's profile sets the effort where the request does
// not, and always if it is locked. A request for the private plane whose tier nothing says gets the operator's default: it becomes one of its hints.
// Which tiers of classes the intent has is said by the operator's mode, as the resolver knows it.
func (rt *Config) Needs(h *policy.Hints, f *intent.Facts, who *policy.Principal) intent.Built {
	rules := rt.Intents
	rules.Plane = rt.Resolver.PrivatePlane()
	built := intent.Build(h, f, who, &rules)
	if t := rt.Intents.DefaultTier; t != policy.PrivacyUnset && privacy.TakesDefault(h, &built.Intent, rules.Plane) {
		h.PrivacyTier, h.TierByDefault = t, true
		built = intent.Build(h, f, who, &rules)
	}
	row := profile.RowOf(h.Subsystem)
	if row != nil && row.Locked || h.Subsystem != "" && built.Effort == policy.EffortUnset {
		built.Effort = profile.EffortFor(h, built.Security)
	}
	rt.sustain(&built, h)
	return built
}

// sustain has the wallet that pays for agents' inference act on the models of their requests (P-12): one that earns well has better ones, one that does not has
// cheaper ones. What the request itself says of quality or cost stays, and critical subsystems are exempt.
func (rt *Config) sustain(b *intent.Built, h *policy.Hints) {
	band := rt.Wallet.Band()
	if h.Subsystem == "" || intent.Critical(h.Subsystem) || band.Models == (budget.Models{}) {
		return
	}
	if h.Quality == policy.QualityUnset && b.Quality != policy.QualityUnset {
		b.Quality = stepped(b.Quality, band.Classes)
	}
	if h.CostSensitivity == nil {
		b.CostSensitivity = min(b.CostSensitivity+band.Cost, 1)
	}
	b.Why = append(b.Why, "the wallet is "+band.State+": quality "+b.Quality.String())
}

// stepped is a class so many classes above another, or below it.
func stepped(q policy.Quality, classes int) policy.Quality {
	if classes < 0 {
		return q.Downgrade()
	}
	return min(q+policy.Quality(classes), policy.QualityMaximum) //nolint:gosec // a few
}
