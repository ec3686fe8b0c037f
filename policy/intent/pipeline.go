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
func Pipeline(in *policy.Intent, asked, usual string) string {
	if asked != "" {
		return asked
	}
	if p, ok := pipelines[in.Subsystem]; ok && (in.Asked == "" || Known(in.Asked)) {
		return p
	}
	if in.Security == policy.SecurityPrivate {
		return "full"
	}
	return cmp.Or(usual, "standard")
}
