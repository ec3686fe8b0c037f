package extproc

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

// profile works out how the part of an agent that asks wants its answer made, where there is anything to say. in is what the request
// needs, nil if that is not known.
func (x *exchange) profile(in *policy.Intent) {
	if x.Request.Op != chat.Generate {
		return
	}
	d := x.rt.Profiles.Build(&x.Hints, in, x.started)
	if d == nil {
		return
	}
	x.profiled, x.Request.Profile = d, d.Profile
	for _, name := range d.Ignored {
		x.Request.Lost = wire.Named(slices.Clip(x.Request.Lost), name)
	}
	deliberate(x.Request)
}

// deliberate notes that the profile has a model think, as if the client had said so: time-outs and heartbeats depend on it.
func deliberate(r *chat.Request) {
	effort := r.Profile.Locked.Effort
	if effort == "" && !r.SaysThinking() {
		effort = r.Profile.Default.Effort
	}
	switch effort {
	case "high", "max":
		r.Thinking, r.HighEffort = true, true
	case "low", "medium":
		r.Thinking = true
	}
}

// The events of profiles.
const (
	eventProfileApplied  = "inference:profile_applied"
	eventProfileDegraded = "inference:profile_degraded"
)

type profileApplied struct {
	Subsystem       string `json:"subsystem"`
	Temperature     string `json:"temperature,omitempty"` // what the client's own word, the profile and mortality made of it
	ReasoningEffort string `json:"reasoning_effort,omitempty"`
	Structured      bool   `json:"structured"`
	Cached          bool   `json:"cached"`
}

type profileDegraded struct {
	Subsystem string   `json:"subsystem"`
	Degraded  []string `json:"degraded"`
}

// tellProfile reports what a profile set in an attempt's request, once, and what of the request the attempt's provider could not be told.
func (x *exchange) tellProfile(lost []string) {
	d := x.profiled
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
