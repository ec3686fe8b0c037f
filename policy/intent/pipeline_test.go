package intent_test

import (
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

func TestPipelinesComeFromTheIntent(t *testing.T) {
	for _, row := range []struct {
		subsystem, asked, want string
		security               policy.SecurityClass
	}{
		{"heartbeat_t0", "", "minimal", 0},
		{"heartbeat_t1", "", "fast", 0},
		{"heartbeat_t2", "", "standard", 0},
		{"dream", "", "fast", 0},
		{"dream_rem", "", "fast", 0},
		{"hypnagogic_observer", "", "fast", 0},
		{"daimon", "", "fast", policy.SecurityPrivate},
		{"daimon_complex", "", "fast", 0},
		{"risk", "", "standard", policy.SecurityPrivate},
		{"death_reflect", "", "full", 0},
		{"operator", "", "standard", 0},
		{"curator", "", "standard", 0},
		{"curator", "", "full", policy.SecurityPrivate},
		{"curator", "", "standard", policy.SecurityConfidential},
		{"curator", "minimal", "minimal", policy.SecurityPrivate},
	} {
		in := intent.Of(row.subsystem)
		in.Security = row.security
		if got := intent.Pipeline(&in, row.asked, ""); got != row.want {
			t.Errorf("%s %s: %q is %s, want %s", row.subsystem, row.security, row.asked, got, row.want)
		}
	}
	for usual, want := range map[string]string{"": "standard", "fast": "fast"} {
		if got := intent.Pipeline(&policy.Intent{}, "", usual); got != want {
			t.Errorf("a client that is no agent gets %s, want %s", got, want)
		}
	}
}
