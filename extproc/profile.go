package extproc

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy/profile"
)

// The events of profiles.
const (
	eventProfileApplied  = "inference:profile_applied"
	eventProfileDegraded = "inference:profile_degraded"
)

type profileApplied struct {
	Subsystem       string `json:"subsystem"`
	Temperature     string `json:"temperature,omitempty"` // after the client's parameter, the profile and vitality
	ReasoningEffort string `json:"reasoning_effort,omitempty"`
	Structured      bool   `json:"structured"`
	Cached          bool   `json:"cached"`
}

type profileDegraded struct {
	Subsystem string   `json:"subsystem"`
	Degraded  []string `json:"degraded"`
}

// callOwner is an exchange as the writer of its attempts sees it.
type callOwner exchange

// Written implements attempt.Owner.
func (o *callOwner) Written(degraded []string) { (*exchange)(o).tellProfile(degraded) }

// Panicked implements attempt.Owner.
func (o *callOwner) Panicked(value any) error { return (*exchange)(o).panicked(value) }

// tellProfile emits the events of a profile: what it set, once per request, and what an attempt's provider has no parameter for.
func (x *exchange) tellProfile(lost []string) {
	d := x.ProfileDecision
	if d == nil || !x.gw.Events.On() {
		return
	}
	if !x.profileTold {
		x.profileTold = true
		x.gw.Events.Emit(eventProfileApplied, x.Principal.Account, applied(x.Request, d))
	}
	if len(lost) > 0 {
		x.gw.Events.Emit(eventProfileDegraded, x.Principal.Account, profileDegraded{d.Profile.Subsystem, slices.Clone(lost)})
	}
}

func applied(r *chat.Request, d *profile.Decision) profileApplied {
	return profileApplied{
		Subsystem: d.Profile.Subsystem, Temperature: r.Temperature(), ReasoningEffort: d.Applied.Effort.String(),
		Structured: d.Applied.SchemaName != "" || len(d.Applied.Schema) > 0,
		Cached:     d.Applied.PromptCacheKey != "" || d.Applied.CacheControl != nil && *d.Applied.CacheControl,
	}
}
