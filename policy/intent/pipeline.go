package intent

import (
	"cmp"

	"bardo.money/gateway/policy"
)

// pipelines are how much context engineering the parts of an agent get (C-13), by the name of their intent.
var pipelines = map[string]string{
	"heartbeat_t0": "minimal",
	"heartbeat_t1": "fast", "dream": "fast", "daimon": "fast", "daimon_complex": "fast",
	"heartbeat_t2": "standard", "risk": "standard", "operator": "standard",
	"death": "full",
}

// Pipeline is how much context engineering a request gets: minimal, fast, standard or full. asked is what its caller says, "" for nothing;
// usual is what the operator says of requests that nothing else speaks of, "" for standard. Parts that nobody has described share an intent
// with one that has a line of its own, and not that line.
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
