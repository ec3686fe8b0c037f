package runtime

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

// Needs derives a request's intent from its hints, its facts and its caller. The subsystem's profile sets the effort where the request does
// not, and always if it is locked.
func (rt *Config) Needs(h *policy.Hints, f *intent.Facts, who *policy.Principal) intent.Built {
	built := intent.Build(h, f, who, &rt.Intents)
	row := profile.RowOf(h.Subsystem)
	if row != nil && row.Locked || h.Subsystem != "" && built.Effort == policy.EffortUnsaid {
		built.Effort = profile.EffortFor(h, built.Security)
	}
	return built
}
