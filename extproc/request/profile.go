package request

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// ApplyProfile sets the parameters of the subsystem's profile, if there are any. in is the request's intent; nil if unknown.
func (v *View) ApplyProfile(in *policy.Intent) {
	if v.Request.Op != chat.Generate || v.Verbatim() {
		return
	}
	d := v.Config.Profiles.Build(&v.Hints, in, v.Started)
	if d == nil {
		return
	}
	v.ProfileDecision, v.Request.Profile = d, d.Profile
	for _, name := range d.Ignored {
		v.Request.Dropped = wire.AppendDegraded(slices.Clip(v.Request.Dropped), name)
	}
	MarkThinking(v.Request)
}

// MarkThinking sets the request's thinking flags from the profile's effort, as if the client had set them: timeouts depend on them.
func MarkThinking(r *chat.Request) {
	switch EffortOf(r) {
	case "high", "max":
		r.Thinking, r.HighEffort = true, true
	case "low", "medium":
		r.Thinking = true
	}
}

// EffortOf returns the profile's reasoning effort; "" where the client sets reasoning itself and the profile does not lock it.
func EffortOf(r *chat.Request) string {
	if e := r.Profile.Locked.Effort; e != "" || r.HasThinking() {
		return e
	}
	return r.Profile.Default.Effort
}

// ThinkingTokens returns the number of tokens by which an answer may exceed the client's own limit: for Anthropic's format, the profile's thinking
// budget is added to max_tokens.
func (v *View) ThinkingTokens(candidates []policy.Resolution) int {
	if v.Request.Profile == nil {
		return 0
	}
	budget := wire.Budgets[EffortOf(v.Request)]
	if budget == 0 {
		return 0
	}
	for i := range candidates {
		to := &candidates[i]
		at := v.Config.Provider(to.Provider)
		if !to.AdaptiveThinking && to.Reasoning != "none" && at.Adapter.Dialect(*to, at.Endpoint, v.Request.Dialect) == chat.Anthropic {
			return budget
		}
	}
	return 0
}
