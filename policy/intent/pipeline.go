package intent

import (
	"cmp"

	"bardo.money/gateway/policy"
)

// pipelines are the pipeline profiles of the agents' intents (C-13).
var pipelines = map[string]string{
	"heartbeat_t0": "minimal",
	"heartbeat_t1": "fast", "dream": "fast", "daimon": "fast", "daimon_complex": "fast",
	"heartbeat_t2": "standard", "risk": "standard", "operator": "standard",
	"death": "full",
}

// Pipeline returns a request's pipeline profile: minimal, fast, standard or full. asked is the client's, "" if unset; usual is the operator's
// default, "" for standard. Unknown subsystems share an intent with a known one, but not its profile.
func Pipeline(in *policy.Intent, requested, usual string) string {
	if requested != "" {
		return requested
	}
	if p, ok := pipelines[in.Subsystem]; ok && (in.SubsystemName == "" || Known(in.SubsystemName)) {
		return p
	}
	if in.Security == policy.SecurityPrivate {
		return "full"
	}
	return cmp.Or(usual, "standard")
}
