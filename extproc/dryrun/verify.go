package dryrun

import (
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// verifierOf returns a sentence on which model would verify the answer; "" for a request that is not verified.
func verifierOf(rt *runtime.Config, h *policy.Hints, in *policy.Intent, order []Candidate) string {
	isRisk := h.Subsystem != "" && intent.Root(h.Subsystem) == runtime.SubsystemRisk
	if len(order) == 0 || !h.Verify && (!isRisk || rt.VerifyRisk != runtime.VerifyAlways) {
		return ""
	}
	first, err := rt.Resolver.Resolve(string(order[0].Model), string(order[0].Provider))
	if err != nil {
		return ""
	}
	for _, to := range rt.Resolver.Verifiers(in, &first[0]) {
		return "verified by " + string(to.Provider) + "/" + string(to.Model)
	}
	return "verify: no second model may be asked"
}
