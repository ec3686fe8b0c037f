package extproc

import "bardo.money/gateway/internal/fault"

const (
	headerSubsystem = "x-bardo-subsystem"

	// otherSubsystem stands for every name that is not one of subsystems: sums are kept per subsystem for ever, and a client
	// that counts its subsystems up must not fill the store.
	otherSubsystem = "other"

	longestSubsystem = 64
)

// subsystems are the parts of a Golem that say who they are: those with an intent of their own, the finer ones that only have a
// profile, and the other names under which some of these are known.
var subsystems = setOf(
	"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "daimon_complex", "curator", "playbook",
	"operator", "death", "session_compact",

	"mind_wandering", "dream_nrem", "dream_rem", "dream_rem_creative", "dream_integration", "dream_threat",
	"hypnagogic_induction", "hypnagogic_dali", "hypnagogic_observer", "hypnagogic_capture", "hypnopompic_return",
	"death_reflect", "death_testament",

	"context", "session", "autonomous", "social",
)

func setOf(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// hear reads what the caller says about itself.
func (x *exchange) hear() error {
	if err := x.hearReplay(); err != nil {
		return err
	}
	if !x.head.h.Has(headerSubsystem) {
		return nil
	}
	name := x.head.h.Get(headerSubsystem)
	if !isSubsystem(name) {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Subsystem: expected 1 to %d characters of a-z, 0-9 and _", longestSubsystem)
	}
	x.Hints.Subsystem = otherSubsystem
	if subsystems[name] {
		x.Hints.Subsystem = name
	}
	return nil
}

// isSubsystem reports whether a name could be a subsystem's.
func isSubsystem(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= longestSubsystem
}
