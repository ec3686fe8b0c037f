package extproc

import (
	"encoding/json"
	"slices"

	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// keepReasoning keeps an answer's reasoning for its own account, where the surface may ask for it afterwards.
func (x *exchange) keepReasoning(a *answer) {
	if a == nil || a.shown == nil || !a.shown.view.Keeps() || !x.mayKeep() {
		return
	}
	c := a.chain()
	if c.Visibility == reasoning.None {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		x.gw.Log.Error("an answer's reasoning cannot be kept", "request", x.ID, "error", err)
		return
	}
	x.gw.reasonings.Put(x.ID, x.Principal.Account, b)
}

// mayKeep reports whether anything of the answer may be kept: nothing is of callers without an account, and nothing of what is confidential
// (D-05) or in any way asked to be private (D-44).
func (x *exchange) mayKeep() bool {
	in := &x.Intent
	return x.Principal.Account != "" && in.Security == policy.SecurityStandard && in.PrivacyTier == policy.PrivacyUnsaid &&
		!intent.IsTaskClass(x.Hints.TaskClass) && !slices.ContainsFunc(in.Require, isSecret) && !slices.ContainsFunc(in.Prefer, isSecret)
}

// isSecret reports whether who wants a feature wants nothing to be retained.
func isSecret(f policy.Feature) bool {
	return f == policy.Privacy || f == policy.NoLog || f == policy.TEEAttested || f == policy.EndToEndEncryption
}
