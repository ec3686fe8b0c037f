package runtime

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/privacy"
	"bardo.money/gateway/policy/profile"
)

// Needs derives a request's intent from its hints, its facts and its caller. The subsystem's profile sets the effort if the request does not, and
// always if it is locked. A request for the private plane without a stated tier gets the operator's default as a hint. The operator's mode, which the
// resolver knows, decides which class tiers the intent has.
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
	rt.applyWallet(&built, h)
	return built
}

// applyWallet adjusts the model classes by the wallet that pays for agents' inference (P-12): with high earnings they rise, with low ones they fall.
// Quality and cost stated in the request are kept, and critical subsystems are exempt.
func (rt *Config) applyWallet(b *intent.Built, h *policy.Hints) {
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

// stepped returns the class that is the given number of classes above q, or below it if negative.
func stepped(q policy.Quality, classes int) policy.Quality {
	if classes < 0 {
		return q.Downgrade()
	}
	return min(q+policy.Quality(classes), policy.QualityMaximum) //nolint:gosec // a few
}
