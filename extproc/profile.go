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
	if x.Request.Op != chat.Generate || x.verbatim() {
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
	switch effortOf(r) {
	case "high", "max":
		r.Thinking, r.HighEffort = true, true
	case "low", "medium":
		r.Thinking = true
	}
}

// effortOf is how hard the profile has a model think; "" where the client says it itself.
func effortOf(r *chat.Request) string {
	if e := r.Profile.Locked.Effort; e != "" || r.SaysThinking() {
		return e
	}
	return r.Profile.Default.Effort
}

// raised is by how many tokens a candidate's answer may be longer than the client's own limit, because the profile has it think: where
// thinking has a budget, the limit is raised by it.
func (x *exchange) raised(candidates []policy.Resolution) int {
	if x.Request.Profile == nil {
		return 0
	}
	budget := wire.Budgets[effortOf(x.Request)]
	if budget == 0 {
		return 0
	}
	for i := range candidates {
		to := &candidates[i]
		at, ok := x.rt.Providers[to.Provider]
		if ok && !to.AdaptiveThinking && to.Reasoning != "none" && at.Adapter.Dialect(*to, at.Endpoint, x.Request.Dialect) == chat.Anthropic {
			return budget
		}
	}
	return 0
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
