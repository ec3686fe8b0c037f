package runtime

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/privacy"
	"bardo.money/gateway/policy/profile"
)

// Needs derives a request's intent from its hints, its facts and its caller. The subsystem's profile sets the effort where the request does
// not, and always if it is locked. A request for the private plane whose tier nothing says gets the operator's default: it becomes one of its hints.
func (rt *Config) Needs(h *policy.Hints, f *intent.Facts, who *policy.Principal) intent.Built {
	built := intent.Build(h, f, who, &rt.Intents)
	if t := rt.Intents.DefaultTier; t != policy.PrivacyUnsaid && privacy.TakesDefault(h, &built.Intent, rt.Resolver.PrivatePlane()) {
		h.PrivacyTier, h.TierByDefault = t, true
		built = intent.Build(h, f, who, &rt.Intents)
	}
	row := profile.RowOf(h.Subsystem)
	if row != nil && row.Locked || h.Subsystem != "" && built.Effort == policy.EffortUnsaid {
		built.Effort = profile.EffortFor(h, built.Security)
	}
	return built
}
