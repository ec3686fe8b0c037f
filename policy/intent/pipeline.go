package intent

import "bardo.money/gateway/policy"

// pipelines are how much context engineering the parts of an agent get (004, section 5), by the name of their intent.
var pipelines = map[string]string{
	"heartbeat_t0": "minimal",
	"heartbeat_t1": "fast", "dream": "fast", "daimon": "fast", "daimon_complex": "fast",
	"heartbeat_t2": "standard", "risk": "standard", "operator": "standard",
	"death": "full",
}

// Pipeline is how much context engineering a request gets: minimal, fast, standard or full. asked is what its caller says, "" for nothing.
func Pipeline(in *policy.Intent, asked string) string {
	if asked != "" {
		return asked
	}
	if p, ok := pipelines[in.Subsystem]; ok {
		return p
	}
	if in.Security == policy.SecurityPrivate {
		return "full"
	}
	return "standard"
}
